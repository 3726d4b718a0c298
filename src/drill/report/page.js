'use strict';
// Draws the timelines of a report from the figures that stand beside it in the page. Everything else
// is in the page already.
(() => {
  const root = document.documentElement;
  const errors = [];
  window.addEventListener('error', (event) => {
    errors.push(String(event.message));
    root.dataset.errors = errors.join('\n');
  });
  const report = JSON.parse(document.getElementById('report').textContent);
  const timeline = report.timeline;
  const seconds = timeline.allowed.map((_, i) => i * timeline.step_ms / 1000);
  const colour = (name) => getComputedStyle(root).getPropertyValue('--' + name).trim();

  const phases = [];
  let at = 0;
  for (const phase of report.phases) {
    phases.push({name: phase.phase, calm: phase.calm, from: at, to: at + phase.length_ms / 1000});
    at += phase.length_ms / 1000;
  }

  // The phases behind the figures: faults shaded, each with its name.
  const stage = {
    id: 'stage',
    beforeDatasetsDraw(chart) {
      const {ctx, chartArea: area, scales: {x}} = chart;
      ctx.save();
      ctx.font = '11px system-ui, sans-serif';
      ctx.textBaseline = 'top';
      for (const phase of phases) {
        const left = Math.max(x.getPixelForValue(phase.from), area.left);
        const right = Math.min(x.getPixelForValue(phase.to), area.right);
        if (!phase.calm) {
          ctx.fillStyle = colour('fault');
          ctx.fillRect(left, area.top, right - left, area.bottom - area.top);
        }
        ctx.fillStyle = colour('soft');
        if (ctx.measureText(phase.name).width < right - left - 6) {
          ctx.fillText(phase.name, left + 4, area.top + 2);
        }
        ctx.strokeStyle = colour('rule');
        ctx.beginPath();
        ctx.moveTo(left, area.top);
        ctx.lineTo(left, area.bottom);
        ctx.stroke();
      }
      ctx.restore();
    },
  };

  const points = (values) => values.map((y, i) => ({x: seconds[i], y}));
  const area = (label, name, values) => ({
    label, colourName: name, data: points(values), fill: true, stepped: true, pointRadius: 0,
    borderWidth: 0, stack: 'all', pointStyle: 'rect',
  });
  const line = (label, name, values, more = {}) => ({
    label, colourName: name, data: points(values), fill: false, pointRadius: 0, borderWidth: 1.5,
    pointStyle: 'line', ...more,
  });
  const level = (label, name, value) => line(label, name, seconds.map(() => value), {
    borderDash: [6, 4],
  });

  const powerOfTen = (value) => (Number.isInteger(Math.log10(value)) ? String(value) : '');
  const drawn = [];
  const draw = (id, datasets, {stacked = false, logarithmic = false, unit}) => {
    const chart = new Chart(document.getElementById(id), {
      type: 'line',
      data: {datasets},
      plugins: [stage],
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
        normalized: true, interaction: {mode: 'index', intersect: false},
        scales: {
          x: {type: 'linear', min: 0, max: at, title: {display: false},
            ticks: {callback: (value) => value + ' s', maxRotation: 0}},
          y: {stacked, title: {display: true, text: unit}, ...(logarithmic
            ? {type: 'logarithmic', min: 0.1, ticks: {callback: powerOfTen}}
            : {type: 'linear', beginAtZero: true, grace: '5%', ticks: {maxTicksLimit: 6}})},
        },
        plugins: {
          legend: {position: 'bottom', labels: {usePointStyle: true, boxHeight: 6}},
          tooltip: {callbacks: {title: (items) => items[0].parsed.x.toFixed(1) + ' s'}},
        },
      },
    });
    drawn.push(chart);
  };

  const paint = () => {
    for (const chart of drawn) {
      for (const dataset of chart.data.datasets) {
        dataset.borderColor = dataset.backgroundColor = colour(dataset.colourName);
      }
      chart.options.color = colour('ink');
      for (const scale of Object.values(chart.options.scales)) {
        scale.ticks.color = colour('soft');
        scale.title.color = colour('soft');
        scale.grid = {color: colour('rule'), drawTicks: false};
      }
      chart.update('none');
    }
    root.dataset.charts = String(drawn.length);
  };

  draw('verdicts', ['allowed', 'limited', 'refused', 'failed']
    .filter((name) => timeline[name].some((count) => count > 0))
    .map((name) => area(name, name, timeline[name])), {stacked: true, unit: 'calls in 0.1 s'});
  draw('latency', [line('slowest answer', 'line', timeline.slowest_ms.map((ms) => ms || null))],
    {logarithmic: true, unit: 'ms'});
  if (document.getElementById('rungs')) {
    draw('rungs', Object.entries(timeline.rungs).map(([name, counts]) => area(name, name, counts)),
      {stacked: true, unit: 'answers in 0.1 s'});
  }
  report.bounds.forEach((bound, i) => {
    if (!document.getElementById('bound-' + i)) return;
    const lines = [line('admitted', 'allowed', bound.timeline, {borderWidth: 2}),
      level('with the store', 'soft', bound.limit)];
    // A bound far above everything would flatten what is to be seen.
    if (bound.most !== null && bound.most <= 4 * bound.limit) {
      lines.push(level('bound', 'refused', bound.most));
    }
    draw('bound-' + i, lines, {unit: 'units of one key'});
  });
  paint();

  const scheme = window.matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', paint);
  // Printed on paper it is light, whatever the screen is.
  window.addEventListener('beforeprint', () => {
    for (const chart of drawn) chart.resize();
    paint();
  });
  window.addEventListener('afterprint', () => {
    for (const chart of drawn) chart.resize();
    paint();
  });
})();

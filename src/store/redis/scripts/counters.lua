
-- How much longer than it needs a key lives: clocks that run or are set apart by less change nothing.
local margin = 1000

-- No instant that is kept lies after the year 2242.
local latest = 8589934592

-- What a stored time ahead of now may be ahead by before it counts as one of another clock.
local function out_of_reach(as, an)
  return less(s + 1, n, as, an)
end

local function milliseconds_until(as, an)
  local ms = (as - s) * 1000 + (an - n) / 1e6
  if ms < 0 then ms = 0 end
  return ms - ms % 1 + 1 + margin
end

-- Which numbers hold for a counter kept under (limit, burst) of load: true where they are other
-- ones than the ask's and newer. Sets c.load to the later load where they are the same.
local function newer(c, limit, burst, load)
  if limit == c.limit and burst == c.burst then
    if load > c.load then c.load = load end
    return false
  end
  if load ~= c.load then return load > c.load end
  return limit > c.limit or limit == c.limit and burst > c.burst
end

-- Reads a counter that is one string; a value of another type or length counts as none.
local function get(c, letter, size)
  local v = try('GET', c.key)
  if not v then return nil end
  if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then return nil, v end
  if type(v) == 'string' and #v == size and sub(v, 1, 1) == letter then
    c.found = true
    return v
  end
  c.repaired = true
  return nil
end

local function put(c, value, es, en)
  call('SET', c.key, value, 'PX', milliseconds_until(es, en))
end

-- gcra: value = 'g' limit burst interval load arrival-time
local gcra = {}

function gcra.read(c, blob)
  c.is, c.in9, c.rs, c.r9 = unpack('>I5I4I5I4', blob, 23)
  local v, err = get(c, 'g', 33)
  if err then return err end
  c.as, c.a9 = 0, 0
  if v then
    local limit, burst, vis, vi9, load
    limit, burst, vis, vi9, load, c.as, c.a9 = unpack('>I4I4I5I4I6I5I4', v, 2)
    if c.as >= latest or c.a9 >= 1e9 or vi9 >= 1e9 or burst > 0 and vis + vi9 == 0 then
      c.found, c.repaired, c.as, c.a9 = nil, true, 0, 0
    elseif newer(c, limit, burst, load) then
      c.other, c.limit, c.burst, c.is, c.in9, c.load = true, limit, burst, vis, vi9, load
    elseif limit ~= c.limit or burst ~= c.burst then
      c.converted = true
      c.fis, c.fi9, c.fburst = vis, vi9, burst
    end
  end
  c.us, c.u9 = product(c.is, c.in9, c.burst)
  if c.converted then gcra.convert(c) end
end

-- Used units stay used: the level is scaled from one interval to the other, rounded up.
function gcra.convert(c)
  local ls, l9 = over(c.as, c.a9, s, n)
  c.as, c.a9 = 0, 0
  if c.fburst == 0 or c.burst == 0 then return end
  local fus, fu9 = product(c.fis, c.fi9, c.fburst)
  if less(fus + 1, fu9, ls, l9) then ls, l9 = fus, fu9 end
  if ls + l9 == 0 then return end
  local q = quotient(0, ls, l9, c.fis, c.fi9)
  local rs, r9 = over(ls, l9, product(c.fis, c.fi9, q))
  local q1, es, e9 = scale(rs, r9, c.is, c.fis, c.fi9)
  local q2, gs, g9 = scale(es, e9, 1e9, c.fis, c.fi9)
  local q3, hs, h9 = scale(rs, r9, c.in9, c.fis, c.fi9)
  local small = q2 + q3
  gs, g9 = add(gs, g9, hs, h9)
  if not less(gs, g9, c.fis, c.fi9) then
    small = small + 1
    gs, g9 = over(gs, g9, c.fis, c.fi9)
  end
  if gs + g9 > 0 then small = small + 1 end
  local ts, t9 = product(c.is, c.in9, q)
  ts, t9 = add(ts, t9, q1 + (small - small % 1e9) / 1e9, small % 1e9)
  if less(c.us, c.u9, ts, t9) then ts, t9 = c.us, c.u9 end
  c.as, c.a9 = add(s, n, ts, t9)
end

-- The state as now may see it.
function gcra.reach(c)
  local ls, l9 = over(c.as, c.a9, s, n)
  if less(c.us + 1, c.u9, ls, l9) then
    c.as, c.a9 = add(s, n, c.us, c.u9)
    return c.us, c.u9, true
  end
  return ls, l9
end

function gcra.merge(c, blob)
  local ks, k9 = unpack('>I5I4', blob)
  local hs, h9 = add(s, n, c.us, c.u9)
  if less(hs, h9, ks, k9) then ks, k9 = hs, h9 end
  if less(c.as, c.a9, ks, k9) and less(s, n, ks, k9) then c.as, c.a9, c.kept = ks, k9, true end
end

function gcra.owe(c, o, x)
  local ls, l9 = gcra.reach(c)
  local ts, t9 = add(ls, l9, product(c.is, c.in9, x))
  local bs, b9 = product(c.is, c.in9, o.bound)
  if less(bs, b9, ts, t9) then c.above = true end
  if less(c.us, c.u9, ts, t9) then
    ts, t9 = c.us, c.u9
    if less(ts, t9, ls, l9) then ts, t9 = ls, l9 end
  end
  c.as, c.a9 = add(s, n, ts, t9)
  c.kept = true
end

function gcra.owed_until(c) return add(s, n, c.us, c.u9) end

function gcra.judge(c)
  c.bs, c.b9 = c.as, c.a9
  if c.op == 'z' then
    c.fits = true
    return
  end
  local ls, l9, moved = gcra.reach(c)
  c.ws, c.w9 = c.as, c.a9
  if c.op == 'r' then
    gcra.refund(c, ls, l9)
    return
  end
  local units = c.cost
  if c.op == 'd' then
    local fs, f9 = over(c.us, c.u9, ls, l9)
    local left = 0
    if c.burst > 0 then left = quotient(0, fs, f9, c.is, c.in9) end
    c.fits = units <= left and (units > 0 or left > 0)
    if units > left then units = left end
  else
    if units == 0 then units = 1 end
    c.fits = false
    if units <= c.burst then
      local ts, t9 = add(ls, l9, product(c.is, c.in9, units))
      c.fits = not less(c.us, c.u9, ts, t9)
    end
  end
  if c.cost == 0 or c.burst == 0 then return end
  if moved and not c.fits then c.changed, c.bs, c.b9 = true, c.as, c.a9 end
  if (c.fits or c.op == 'd') and units > 0 then
    c.ws, c.w9 = add(s, n, add(ls, l9, product(c.is, c.in9, units)))
    c.charges = true
  end
end

function gcra.refund(c, ls, l9)
  c.fits = true
  local ss, s9 = over(c.rs, c.r9, s, n)
  local units = c.cost
  if units > c.burst then units = c.burst end
  local ds, d9 = product(c.is, c.in9, units)
  if less(ss, s9, ds, d9) then ds, d9 = ss, s9 end
  if less(ls, l9, ds, d9) then ds, d9 = ls, l9 end
  if ds + d9 > 0 and c.found then
    c.ws, c.w9 = over(c.ws, c.w9, ds, d9)
    c.returns = true
  end
end

local function gcra_put(c, as, a9)
  put(c, pack('>c1I4I4I5I4I6I5I4', 'g', c.limit, c.burst, c.is, c.in9, c.load, as, a9), as, a9)
end
function gcra.write(c) gcra_put(c, c.ws, c.w9) end
function gcra.keep(c)
  if c.bs + c.b9 > 0 then gcra_put(c, c.bs, c.b9) elseif c.found then call('DEL', c.key) end
end
function gcra.report(c, flags)
  return pack('>BI4I4I5I4I4I4', flags, c.limit, c.burst, c.js, c.j9, 0, 0)
end
function gcra.expiry(c) return c.as, c.a9 end

-- Windows: value = 'f' limit load start current, and 'w' limit load start current previous
-- The ask brings the starts of the windows around it: only C++ knows the calendar.
local window = {}

function window.read(c, blob)
  local as, a9, bs, b9, ds, d9
  as, a9, bs, b9, ds, d9, c.ps, c.p9, c.rs, c.r9 =
    unpack('>I5I4I5I4I5I4I5I4I5I4', blob, 23)
  if less(s, n, as, a9) or not less(s, n, ds, d9) then
    c.astray = true
    return
  end
  c.ss, c.s9, c.es, c.e9 = as, a9, bs, b9
  c.xs, c.x9 = ds, d9
  if not less(s, n, bs, b9) then c.ss, c.s9, c.es, c.e9 = bs, b9, ds, d9 end
  local sliding = c.kind == 'w'
  local v, err = get(c, c.kind, sliding and 28 or 24)
  if err then return err end
  c.vs, c.v9, c.vc, c.vp = 0, 0, 0, 0
  if v then
    local limit, load
    limit, load, c.vs, c.v9, c.vc = unpack('>I4I6I5I4I4', v, 2)
    if sliding then c.vp = unpack('>I4', v, 25) end
    if c.vs >= latest or c.v9 >= 1e9 then
      c.found, c.repaired, c.vs, c.v9, c.vc, c.vp = nil, true, 0, 0, 0, 0
    elseif newer(c, limit, limit, load) then
      c.other, c.limit, c.burst, c.load = true, limit, limit, load
    elseif limit ~= c.limit then
      c.converted = true
    end
  end
  window.place(c)
end

-- The counts as now sees them: c.us used in the window from (ss, s9) on, c.up in the one before.
function window.place(c)
  c.used, c.prev, c.ns, c.n9 = 0, 0, s, n
  if less(c.vs, c.v9, c.ss, c.s9) then
    local as, a9 = add(c.vs, c.v9, c.ps, c.p9)
    if c.kind == 'w' and as == c.ss and a9 == c.s9 then c.prev = c.vc end
    return
  end
  c.used, c.prev = c.vc, c.vp
  if c.vs == c.ss and c.v9 == c.s9 then return end
  if out_of_reach(c.vs, c.v9) or not less(s, n, c.vs, c.v9) then
    c.moved = true
    return
  end
  if c.kind == 'w' then c.ns, c.n9 = c.vs, c.v9 end
  if c.vs == c.es and c.v9 == c.e9 then
    c.ss, c.s9, c.es, c.e9 = c.vs, c.v9, c.xs, c.x9
  else
    c.ss, c.s9 = c.vs, c.v9
    c.es, c.e9 = add(c.vs, c.v9, c.ps, c.p9)
  end
end

local function settle(c)
  c.vs, c.v9, c.vc, c.vp, c.kept = c.ss, c.s9, c.used, c.prev, true
end

function window.merge(c, blob)
  local ks, k9, current, previous = unpack('>I5I4I4I4', blob)
  local used, prev = c.used, c.prev
  if ks == c.ss and k9 == c.s9 then
    if current > used then used = current end
    if previous > prev then prev = previous end
  elseif c.kind == 'w' then
    local as, a9 = add(ks, k9, c.ps, c.p9)
    if as == c.ss and a9 == c.s9 and current > prev then prev = current end
  end
  if used > c.used or prev > c.prev then
    c.used, c.prev = used, prev
    settle(c)
  end
end

-- Whether a window is the current one, or the one before where that still counts.
function window.holds(c, ws, w9)
  if ws == c.ss and w9 == c.s9 then return true, false end
  if c.kind == 'f' then return false end
  local as, a9 = add(ws, w9, c.ps, c.p9)
  return as == c.ss and a9 == c.s9, true
end

function window.owe(c, o, x)
  local _, before = window.holds(c, o.ws, o.w9)
  local count = before and c.prev or c.used
  if count + x > o.bound then c.above = true end
  if count + x > c.limit then x = c.limit - count end
  if x <= 0 then return end
  if before then c.prev = count + x else c.used = count + x end
  settle(c)
end

function window.owed_until(c, o)
  if c.kind == 'w' and o.ws == c.ss and o.w9 == c.s9 then return add(c.es, c.e9, c.ps, c.p9) end
  return c.es, c.e9
end

function window.left(c)
  if c.used >= c.limit then return 0 end
  local room = c.limit - c.used
  if c.prev == 0 then return room end
  local ds, d9 = over(c.es, c.e9, c.ns, c.n9)
  local xb, xs, xn = times(ds, d9, c.prev)
  local q = quotient(xb, xs, xn, c.ps, c.p9)
  local yb, ys, yn = times(c.ps, c.p9, q)
  if less3(yb, ys, yn, xb, xs, xn) then q = q + 1 end
  if q >= room then return 0 end
  return room - q
end

function window.judge(c)
  if c.op == 'z' then
    c.fits = true
    return
  end
  if c.op == 'r' then
    window.refund(c)
    return
  end
  local left = window.left(c)
  local units = c.cost
  c.fits = (units > 0 and units or 1) <= left
  if units == 0 then return end
  if c.moved and not c.fits then c.changed = true end
  if c.op == 'd' and units > left then units = left end
  if (c.fits or c.op == 'd') and units > 0 then
    c.wused, c.wprev, c.charges = c.used + units, c.prev, true
  end
end

function window.refund(c)
  c.fits = true
  if c.cost == 0 or not c.found then return end
  if c.rs == c.ss and c.r9 == c.s9 then
    if c.used > 0 then
      c.wused, c.wprev, c.returns = c.used > c.cost and c.used - c.cost or 0, c.prev, true
    end
  elseif c.kind == 'w' then
    local as, a9 = add(c.rs, c.r9, c.ps, c.p9)
    if as == c.ss and a9 == c.s9 and c.prev > 0 then
      c.wused, c.wprev, c.returns = c.used, c.prev > c.cost and c.prev - c.cost or 0, true
    end
  end
end

local function window_put(c, used, prev)
  local es, e9 = c.es, c.e9
  if c.kind == 'f' then
    put(c, pack('>c1I4I6I5I4I4', 'f', c.limit, c.load, c.ss, c.s9, used), es, e9)
  else
    if used > 0 then es, e9 = add(es, e9, c.ps, c.p9) end
    put(c, pack('>c1I4I6I5I4I4I4', 'w', c.limit, c.load, c.ss, c.s9, used, prev), es, e9)
  end
end
function window.write(c) window_put(c, c.wused, c.wprev) end
function window.keep(c) window_put(c, c.used, c.prev) end
function window.report(c, flags)
  return pack('>BI4I4I5I4I4I4', flags, c.limit, c.limit, c.js, c.j9, c.jc, c.jp)
end
function window.expiry(c)
  if c.kind == 'w' then return add(c.es, c.e9, c.ps, c.p9) end
  return c.es, c.e9
end

-- The log: a list of its head, 'l' limit load last-seen used, and one element a charge, oldest
-- first: time units. What is over is dropped when something is charged.
local log = {}

local function entry(c, i)
  local e = call('LINDEX', c.key, i)
  if not e or #e ~= 13 then return nil end
  return unpack('>I5I4I4', e)
end

function log.read(c, blob)
  c.ps, c.p9, c.rs, c.r9 = unpack('>I5I4I5I4', blob, 23)
  c.used, c.first, c.as, c.a9 = 0, 1, s, n
  local h = try('LINDEX', c.key, 0)
  if not h then return end
  if type(h) == 'table' and not string.find(h.err, 'WRONGTYPE', 1, true) then return h end
  if type(h) == 'table' or #h ~= 25 or sub(h, 1, 1) ~= 'l' then
    c.repaired = true
    return
  end
  local limit, load, vs, v9, used = unpack('>I4I6I5I4I5', h, 2)
  if vs >= latest or v9 >= 1e9 then
    c.repaired = true
    return
  end
  c.found, c.used = true, used
  if newer(c, limit, limit, load) then
    c.other, c.limit, c.burst, c.load = true, limit, limit, load
  elseif limit ~= c.limit then
    c.converted = true
  end
  c.hs, c.h9 = vs, v9
  if less(s, n, vs, v9) then
    if out_of_reach(vs, v9) then c.moved = true else c.as, c.a9 = vs, v9 end
  end
  log.drop_over(c)
end

-- Counts what is no longer inside the period: c.first is the first element that is.
function log.drop_over(c)
  local cs, c9 = over(c.as, c.a9, c.ps, c.p9)
  local early = less(c.as, c.a9, c.ps, c.p9)
  while true do
    local es, e9, units = entry(c, c.first)
    if not es then break end
    if early or less(cs, c9, es, e9) then break end
    c.used, c.first = c.used - units, c.first + 1
  end
  local sound = entry(c, -1) and c.used >= 0 or c.used == 0 and call('LLEN', c.key) == 1
  if not sound then c.found, c.repaired, c.moved, c.used, c.first = nil, true, nil, 0, 1 end
end

function log.merge(c, blob)
  local ks, k9, current = unpack('>I5I4I4', blob)
  local es, e9 = add(ks, k9, c.ps, c.p9)
  if less(c.as, c.a9, es, e9) and current > c.used then log.push_kept(c, current - c.used) end
end

function log.owe(c, o, x)
  if c.used + x > o.bound then c.above = true end
  if c.used + x > c.limit then x = c.limit - c.used end
  if x > 0 then log.push_kept(c, x) end
end

function log.owed_until(c) return add(s, n, c.ps, c.p9) end

-- Units that were used before this ask: they stand whatever becomes of it.
function log.push_kept(c, units)
  log.bring_back(c)
  log.charge(c, units)
  c.found = true
end

function log.judge(c)
  if c.op == 'z' then
    c.fits = true
    return
  end
  if c.op == 'r' then
    c.fits = true
    c.returns = c.found and c.cost > 0 and not c.moved
    return
  end
  local left = c.used < c.limit and c.limit - c.used or 0
  local units = c.cost
  c.fits = (units > 0 and units or 1) <= left
  if units == 0 then return end
  if c.moved and not c.fits then c.changed = true end
  if c.op == 'd' and units > left then units = left end
  if (c.fits or c.op == 'd') and units > 0 then c.units, c.charges = units, true end
end

-- When enough of the oldest units are over for the ask to fit, as the time of their entry.
function log.fit(c, units)
  local used, i = c.used, c.first
  local fs, f9 = 0, 0
  while used + units > c.limit do
    local es, e9, u = entry(c, i)
    if not es then break end
    fs, f9, used, i = es, e9, used - u, i + 1
  end
  return fs, f9
end

-- Charges of a clock that was set back since count as charged now.
function log.bring_back(c)
  if not c.moved then return end
  c.moved = nil
  local later = 0
  while true do
    local es, e9, units = entry(c, -1)
    if not es or less(es, e9, s, n) then break end
    call('RPOP', c.key)
    later = later + units
  end
  while later > 0 do
    local units = later > 4294967295 and 4294967295 or later
    call('RPUSH', c.key, pack('>I5I4I4', s, n, units))
    later = later - units
  end
end

-- Writes the head, seen last at (as, a9), without what is over, and the time to live.
function log.save(c, as, a9)
  if c.first > 1 then
    call('LTRIM', c.key, c.first - 1, -1)
    c.first = 1
  end
  call('LSET', c.key, 0, pack('>c1I4I6I5I4I5', 'l', c.limit, c.load, as, a9, c.used))
  call('PEXPIRE', c.key, milliseconds_until(add(as, a9, c.ps, c.p9)))
end

function log.charge(c, units)
  if not c.found then
    call('DEL', c.key)
    call('RPUSH', c.key, 'l')
    c.first = 1
  end
  c.used = c.used + units
  local es, e9, u = entry(c, -1)
  if es == c.as and e9 == c.a9 and c.used > units and u <= 4294967295 - units then
    call('LSET', c.key, -1, pack('>I5I4I4', es, e9, u + units))
  else
    call('RPUSH', c.key, pack('>I5I4I4', c.as, c.a9, units))
  end
  log.save(c, c.as, c.a9)
end

function log.write(c)
  if c.op == 'r' then
    log.refund(c)
    return
  end
  log.bring_back(c)
  log.charge(c, c.units)
end

function log.refund(c)
  local i = -1
  while true do
    local es, e9, units = entry(c, i)
    if not es or less(es, e9, c.rs, c.r9) then return end
    if es == c.rs and e9 == c.r9 then
      local last = call('LLEN', c.key) + i
      if last < c.first then return end
      local back = c.cost < units and c.cost or units
      c.used = c.used - back
      if back < units then
        call('LSET', c.key, i, pack('>I5I4I4', es, e9, units - back))
      else
        call('LSET', c.key, i, '')
        call('LREM', c.key, -1, '')
      end
      log.save(c, c.as, c.a9)
      return
    end
    i = i - 1
  end
end

function log.keep(c)
  if not c.found then return end
  if c.moved then
    log.bring_back(c)
    log.save(c, s, n)
  else
    log.save(c, c.hs, c.h9)
  end
end

function log.report(c, flags)
  return pack('>BI4I5I5I4I5I4I5I4', flags, c.limit, c.jused, c.as, c.a9, c.ls, c.l9, c.fs, c.f9)
end
function log.expiry(c) return add(s, n, c.ps, c.p9) end

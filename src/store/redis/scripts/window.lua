
-- Windows: value = 'f' limit load start current, and 'w' limit load start current previous
-- The ask brings the starts of the windows around it: only C++ knows the calendar.
local window
if has.f or has.w then
window = {}

function window.read(c, record)
  local as, a9, bs, b9, ds, d9
  c.limit, c.load, as, a9, bs, b9, ds, d9, c.ps, c.p9 =
    unpack('>I4I6I5I4I5I4I5I4I5I4', record, 2)
  c.burst, c.load = c.limit, loaded(c.load)
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
end

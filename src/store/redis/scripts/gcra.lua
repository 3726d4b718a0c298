
-- gcra: value = 'g' limit burst interval load arrival-time
local gcra
if has.g then
gcra = {}

function gcra.read(c, record)
  c.limit, c.burst, c.is, c.in9, c.load = unpack('>I4I4I5I4I6', record, 2)
  c.load = loaded(c.load)
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
  -- What was of another clock, or of other numbers, is kept as it is now: from here on it drains.
  if not c.fits and (moved or c.converted and c.as + c.a9 > 0) then
    c.changed, c.bs, c.b9 = true, c.as, c.a9
  end
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
end

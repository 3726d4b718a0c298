
-- The log: a list of its head, 'l' limit load last-seen used, and one element a charge, oldest
-- first: time units. What is over is dropped when something is charged.
local log
if has.l then
log = {}

function log.entry(c, i)
  local e = call('LINDEX', c.key, i)
  if not e or #e ~= 13 then return nil end
  return unpack('>I5I4I4', e)
end

function log.read(c, record)
  c.limit, c.load, c.ps, c.p9 = unpack('>I4I6I5I4', record, 2)
  c.burst = c.limit
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
    local es, e9, units = log.entry(c, c.first)
    if not es then break end
    if early or less(cs, c9, es, e9) then break end
    c.used, c.first = c.used - units, c.first + 1
  end
  local sound = log.entry(c, -1) and c.used >= 0 or c.used == 0 and call('LLEN', c.key) == 1
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
    local es, e9, u = log.entry(c, i)
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
    local es, e9, units = log.entry(c, -1)
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
  local es, e9, u = log.entry(c, -1)
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
    local es, e9, units = log.entry(c, i)
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
end

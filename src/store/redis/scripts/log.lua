
-- The log: a list of its head, 'l' limit load last-seen used, and one element a charge, oldest
-- first: time units. What is over is dropped when something is charged.
local log
if has.l then
log = {}

function log.youngest(c)
  local e = call('LINDEX', c.key, -1)
  if not e or #e ~= 13 then return nil end
  return unpack('>I5I4I4', e)
end

-- Passes entries from i on to `stop`, older to younger, until it says so or none is left; returns
-- where it ended. In blocks that grow: most asks look at one entry, and of a long log many are read
-- at once, since a list is walked anew to each place in it.
function log.walk(c, i, stop)
  local size = 1
  while true do
    local block = call('LRANGE', c.key, i, i + size - 1)
    for j = 1, #block do
      if #block[j] ~= 13 or stop(unpack('>I5I4I4', block[j])) then return i + j - 1 end
    end
    i = i + #block
    if #block < size then return i end
    if size < 256 then size = size * 4 end
  end
end

-- The same from the youngest on to older ones; returns a place from the end.
function log.walk_back(c, stop)
  local size, i = 1, -1
  while true do
    local block = call('LRANGE', c.key, i - size + 1, i)
    for j = #block, 1, -1 do
      local at = i - #block + j
      if #block[j] ~= 13 or stop(unpack('>I5I4I4', block[j])) then return at end
    end
    i = i - #block
    if #block < size then return i end
    if size < 256 then size = size * 4 end
  end
end

function log.read(c, record)
  c.limit, c.load, c.ps, c.p9 = unpack('>I4I6I5I4', record, 2)
  c.burst, c.load = c.limit, loaded(c.load)
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
  local es, e9 = log.youngest(c)
  if es and not early and not less(cs, c9, es, e9) then
    c.used, c.first = 0, call('LLEN', c.key)
  elseif not early then
    c.first = log.walk(c, 1, function(as, a9, units)
      if less(cs, c9, as, a9) then return true end
      c.used = c.used - units
    end)
  end
  local sound = es and c.used >= 0 or c.used == 0 and call('LLEN', c.key) == 1
  if not sound then c.found, c.repaired, c.moved, c.used, c.first = nil, true, nil, 0, 1 end
  -- Many are not counted again at each ask that is denied.
  c.kept = c.first > 64 and c.op == 't' and c.cost > 0
end

function log.merge(c, blob)
  local ks, k9, current = unpack('>I5I4I4', blob)
  local es, e9 = add(ks, k9, c.ps, c.p9)
  if less(c.as, c.a9, es, e9) and current > c.used then log.push_kept(c, current - c.used) end
end

function log.owe(c, o, x)
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
  local used, fs, f9 = c.used, 0, 0
  if used + units <= c.limit then return fs, f9 end
  log.walk(c, c.first, function(es, e9, u)
    fs, f9, used = es, e9, used - u
    return used + units <= c.limit
  end)
  return fs, f9
end

-- Charges of a clock that was set back since count as charged now.
function log.bring_back(c)
  if not c.moved then return end
  c.moved = nil
  local later = 0
  local i = log.walk_back(c, function(es, e9, units)
    if less(es, e9, s, n) then return true end
    later = later + units
  end)
  if i < -1 then call('LTRIM', c.key, 0, i) end
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
  local es, e9, u = log.youngest(c)
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
  local units
  local i = log.walk_back(c, function(es, e9, u)
    if es == c.rs and e9 == c.r9 then
      units = u
      return true
    end
    return less(es, e9, c.rs, c.r9)
  end)
  if not units or call('LLEN', c.key) + i < c.first then return end
  local back = c.cost < units and c.cost or units
  c.used = c.used - back
  if back < units then
    call('LSET', c.key, i, pack('>I5I4I4', c.rs, c.r9, units - back))
  else
    call('LSET', c.key, i, '')
    call('LREM', c.key, -1, '')
  end
  log.save(c, c.as, c.a9)
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


local kinds = {g = gcra, f = window, w = window, l = log}
local items = {}
local extra, owed_key = count + 2, count + 1
for i = 1, count do
  local record = ARGV[2] and ARGV[i + 1] or sub(ask, 19, 65)
  local kind = sub(record, 1, 1)
  local c = {key = KEYS[i], kind = kind, at = kinds[kind], op = 't', flags = 0}
  local size = kind == 'g' and 47 or kind == 'l' and 25 or 52
  c.cost = unpack('>I5', record, size - 4)
  if #record > size then c.op, c.flags, c.rs, c.r9 = unpack('>c1BI5I4', record, size + 1) end
  items[i] = c
  local err = c.at.read(c, record)
  if err then return err end
  if c.astray then
    t[3] = 3
    return t
  end
end

-- What all workers told of one window, or within the time that their tellings count for: more than
-- their parts come to was admitted by workers that each counted too few others. Their parts are of
-- the largest numbers that any of them admitted by.
local function add_up(c, o, x, total_key, ms)
  local bound = o.bound
  local v = try('GET', total_key)
  if type(v) == 'string' and #v == 10 then
    local units, told = unpack('>I5I5', v)
    x = x + units
    if x > 1099511627775 then x = 1099511627775 end
    if told > bound then bound = told end
    local left = call('PTTL', total_key)
    if left > 0 and left < ms then ms = left end
  end
  call('SET', total_key, pack('>I5I5', x, bound), 'PX', ms)
  if x > bound then c.above = true end
end

-- What a worker admitted while the store was away: a running total, so that only what exceeds its
-- record is applied, however often it is told. Of a window that is over nothing is.
local function settle_owed(c, blob, record_key, total_key)
  local o = {}
  local outage = sub(blob, 1, 8)
  o.ws, o.w9, o.units, o.standing, o.bound, o.confirmed = unpack('>I5I4I5I5I5I5', blob, 9)
  if c.at.holds and not c.at.holds(c, o.ws, o.w9) then return end
  local done = 0
  local v = try('GET', record_key)
  if type(v) == 'string' and #v == 13 and sub(v, 1, 8) == outage then done = unpack('>I5', v, 9) end
  if done < o.confirmed then done = o.confirmed end
  if o.units <= done then return end
  local x = o.units - done
  if x > o.standing then x = o.standing end
  local ms = milliseconds_until(c.at.owed_until(c, o))
  if x > 0 then
    add_up(c, o, x, total_key, ms)
    c.at.owe(c, o, x)
  end
  call('SET', record_key, outage .. pack('>I5', o.units), 'PX', ms)
end

for i = 1, count do
  local c = items[i]
  if c.flags >= 4 then
    c.at.merge(c, ARGV[extra])
    extra = extra + 1
  end
  if c.flags % 4 >= 2 then
    settle_owed(c, ARGV[extra], KEYS[owed_key], KEYS[owed_key + 1])
    extra, owed_key = extra + 1, owed_key + 2
  end
  c.js, c.j9, c.jc, c.jp, c.jused = c.vs or c.as, c.v9 or c.a9, c.vc, c.vp, c.used
end

local allowed = 1
for i = 1, count do
  local c = items[i]
  c.at.judge(c)
  if c.op == 't' and not c.fits and c.flags % 2 == 0 then allowed = 0 end
end

local look = t[2] % 16 == 0 or not ARGV[2]
for i = 1, count do
  local c = items[i]
  local at = c.at
  local flags = (c.fits and 1 or 0) + (c.repaired and 4 or 0) + (c.other and 8 or 0) +
    (c.converted and 16 or 0) + (c.above and 32 or 0)
  local units = c.cost > 0 and c.cost or 1
  local tight = c.kind == 'l' and not c.fits and units <= c.limit
  c.fs, c.f9 = 0, 0
  if tight and (c.op == 't' or allowed == 0) then c.fs, c.f9 = at.fit(c, units) end
  local probe = c.op == 't' and c.cost == 0
  if allowed == 1 and c.op == 'z' then
    if c.found or c.repaired then call('DEL', c.key) end
  elseif allowed == 1 and (c.charges or c.returns) then
    at.write(c)
    if c.charges then flags = flags + 2 end
  elseif c.kept or c.changed and (allowed == 1 or c.op == 't') then
    at.keep(c)
  elseif look and c.found and not probe and call('PTTL', c.key) == -1 then
    call('PEXPIRE', c.key, milliseconds_until(at.expiry(c)))
  end
  if c.kind == 'l' then
    if tight and c.op == 'd' and allowed == 1 then c.fs, c.f9 = at.fit(c, units) end
    if c.op == 'r' then c.jused = c.used end
    local es, e9 = log.youngest(c)
    if es and c.used > 0 then c.ls, c.l9 = es, e9 else c.ls, c.l9 = 0, 0 end
  end
  t[i + 3] = at.report(c, flags)
end
t[3] = allowed
return t

-- What stands of several circuit breakers that a fleet shares. Writes nothing.
--   KEYS  what changes with every change of any, then the records
-- The reply: seconds and microseconds of TIME, the first key's value, then the records; '' for what
--            is not there, or is no string.
local t = redis.call('TIME')
local out = {t[1], t[2]}
for i, key in ipairs(KEYS) do
  local v = redis.pcall('GET', key)
  if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then return v end
  out[i + 2] = type(v) == 'string' and v or ''
end
return out

-- Whether counters may be kept under the names of envoyproxy/ratelimit: counts once as envoyproxy.lua does,
-- reads it back and takes it away, all in one step. What stands there already is somebody's, and stays; but
-- not a count of 1, which a test left that could not take it away.
--   KEYS[1]  a name of that kind, and no counter's
--   ARGV[1]  how long it would live, in seconds
-- The reply: the count, its time to live in ms, and the first error of a command that failed ('' where none did).
local key, fault = KEYS[1], ''
local function try(...)
  local v = redis.pcall(...)
  if type(v) == 'table' and v.err then
    if fault == '' then fault = v.err .. ' (' .. (...) .. ')' end
    return false
  end
  return v
end
local found = redis.pcall('GET', key)
local foreign = type(found) == 'table' and string.find(found.err, 'WRONGTYPE', 1, true)
if type(found) == 'string' and found ~= '1' or foreign then return {'1', 1, ''} end
if type(found) == 'table' then return {'', -3, found.err .. ' (GET)'} end
if found == '1' then try('DEL', key) end
if fault ~= '' then return {'', -3, fault} end
try('INCRBY', key, '1')
try('EXPIRE', key, ARGV[1])
local count, ttl = try('GET', key), try('PTTL', key)
try('DEL', key)
return {count or '', ttl or -3, fault}

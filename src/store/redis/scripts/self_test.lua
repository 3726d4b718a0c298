-- Whether this store can hold counters: writes one with a time to live and reads it back, and runs every
-- command that an ask may need, so that a missing permission shows now and not under load. Its name is one
-- of a counter's: a user's rights may hold the fleet's own keys and not those.
--   KEYS  a counter that is none, the epoch
--   ARGV  token, a new epoch, the counter's and the epoch's time to live in ms
-- The reply: seconds, microseconds, what was read back, its time to live, the epoch, and the first
-- error of a command that failed ('' where none did).
local counter, epoch = KEYS[1], KEYS[2]
local fault = ''
local function try(...)
  local v = redis.pcall(...)
  if type(v) == 'table' and v.err then
    if fault == '' then fault = v.err .. ' (' .. (...) .. ')' end
    return false
  end
  return v
end
local t = redis.call('TIME')
try('SET', counter, ARGV[1], 'PX', ARGV[3])
local value, ttl = try('GET', counter), try('PTTL', counter)
try('DEL', counter)
try('RPUSH', counter, 'a', 'b', 'b')
try('LINDEX', counter, 0)
try('LRANGE', counter, 0, 1)
try('LSET', counter, 0, 'c')
try('LLEN', counter)
try('LTRIM', counter, 0, 1)
try('RPOP', counter)
try('LREM', counter, -1, 'x')
try('PEXPIRE', counter, ARGV[3])
try('DEL', counter)
-- The epoch tells a store that lost its data from one that did not. What is no string there is foreign.
local found = redis.pcall('GET', epoch)
if type(found) == 'table' and found.err and string.sub(found.err, 1, 9) == 'WRONGTYPE' then try('DEL', epoch) end
try('SET', epoch, ARGV[2], 'NX', 'PX', ARGV[4])
local known = try('GET', epoch)
try('PEXPIRE', epoch, ARGV[4])
return {t[1], t[2], value or '', ttl or -3, known or '', fault}

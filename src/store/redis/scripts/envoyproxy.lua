-- Counts an ask as envoyproxy/ratelimit does, so that both may count on one budget: INCRBY and EXPIRE of
-- each counter's window, whatever the others say. docs/internals/redis.md has the protocol.
--   KEYS[1..N]    the windows
--   ARGV[1]       not-after (pair), most seconds that a key lives longer than it must
--   ARGV[2..N+1]  the window's start and end in seconds, and the cost, for each
-- The reply: seconds and microseconds of TIME, then
--   2 late, 3 outside of a window: nothing was written
--   6, how many values were no counts and have begun anew, and the count of each, this ask included
local unpack, call, try = struct.unpack, redis.call, redis.pcall
local t = call('TIME')
local s, n = t[1] + 0, t[2] * 1000
local ls, l9, jitter = unpack('>I5I4I4', ARGV[1])
if s > ls or s == ls and n > l9 then
  t[3] = 2
  return t
end
local costs, lives = {}, {}
for i = 1, #KEYS do
  local starts, ends, high, low = unpack('>I5I5I3I4', ARGV[i + 1])
  if s < starts or s >= ends then
    t[3] = 3
    return t
  end
  costs[i] = high * 4294967296 + low
  lives[i] = ends - starts + t[2] % jitter
end
t[3], t[4] = 6, 0
for i = 1, #KEYS do
  local key, cost = KEYS[i], costs[i]
  local count
  if cost == 0 then
    count = try('GET', key)
    count = type(count) == 'string' and tonumber(count) or 0
  else
    local told = string.format('%.0f', cost)
    count = try('INCRBY', key, told)
    if type(count) == 'table' then
      if string.find(count.err, 'overflow', 1, true) then
        count = 9007199254740991
      elseif string.find(count.err, 'WRONGTYPE', 1, true) or
        string.find(count.err, 'not an integer', 1, true) then
        call('SET', key, told)
        t[4], count = t[4] + 1, cost
      else
        return count
      end
    end
    call('EXPIRE', key, lives[i])
  end
  t[i + 4] = count
end
return t

-- One action on the leases of a concurrency limit that a fleet shares.
--   KEYS  the leases by their ids, and their ends in order
--   ARGV  action, id, weight, limit, lease, longest hold, then for 'k': its fence, for how long it has
--         been held, what is left of it; times in ms
-- action: 'a' acquire   the same id again takes nothing twice
--         'n' renew     what stands alone, until it has been held for the longest
--         'r' release
--         'k' keep      was given, or renewed, while the store did not answer: it stands, whatever the
--                       limit says
-- The hash: id -> weight(4) fence(7) born(6) till(6); '#' -> units(7) fence(7) latest(6), the time of the
--           latest write.
-- The reply: seconds and microseconds of TIME, what came of it, units held, whether something damaged was
--            thrown away, leases that had ended; of the lease its weight, fence, what is left of it, for
--            how long it has been held; when the next lease ends (ms from now; -1 none)
--   0 done, 1 it stood already, 2 full, 3 there is none, 4 it stands with another weight, 5 above the limit
local pack, unpack, floor, max, min = struct.pack, struct.unpack, math.floor, math.max, math.min
local action, id = ARGV[1], ARGV[2]
local weight, limit, lease, longest = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]),
  tonumber(ARGV[6])
local t = redis.call('TIME')
local now = t[1] * 1000 + floor(t[2] / 1000)
local held, fence, latest, damaged, over, written = 0, 0, now, 0, 0, false

local function remove(who)
  redis.call('HDEL', KEYS[1], who)
  redis.call('ZREM', KEYS[2], who)
  written = true
end

local function put(who, w, f, born, till)
  redis.call('HSET', KEYS[1], who, pack('>I4I7I6I6', w, f, born, till))
  redis.call('ZADD', KEYS[2], till, who)
  written = true
end

-- The leases as the hash has them, moved in time: where one of the two keys is gone, or the clock was
-- set back.
local function build(shift)
  local all = redis.call('HGETALL', KEYS[1])
  redis.call('DEL', KEYS[2])
  held, written = 0, true
  for i = 1, #all, 2 do
    local who, v = all[i], all[i + 1]
    if who ~= '#' then
      if #v == 23 then
        local w, f, born, till = unpack('>I4I7I6I6', v)
        put(who, w, f, max(born + shift, 0), max(till + shift, 0))
        held, fence = held + w, max(fence, f)
      else
        redis.call('HDEL', KEYS[1], who)
        damaged = 1
      end
    end
  end
end

local meta, count = redis.pcall('HGET', KEYS[1], '#'), redis.pcall('ZCARD', KEYS[2])
for i, v in ipairs({meta or '', count}) do
  if type(v) == 'table' then
    if not string.find(v.err, 'WRONGTYPE', 1, true) then return v end
    damaged = 1
    redis.call('DEL', KEYS[i])
    if i == 1 then meta = false else count = 0 end
  end
end
local size = redis.call('HLEN', KEYS[1])
if meta and #meta == 20 then
  held, fence, latest = unpack('>I7I7I6', meta)
  if now < latest - 1000 then build(now - latest) elseif size - 1 ~= count then build(0) end
elseif size > 0 or count ~= 0 then
  build(0)
end

-- Those that are over are nobody's.
while true do
  local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 500)
  if #ended == 0 then break end
  for _, who in ipairs(ended) do
    local v = redis.call('HGET', KEYS[1], who)
    if v and #v == 23 then held = held - unpack('>I4', v) end
    remove(who)
    over = over + 1
  end
end

local outcome, w, f, born, till = 0, 0, 0, 0, now
local mine = redis.call('HGET', KEYS[1], id)
if mine and #mine == 23 then
  w, f, born, till = unpack('>I4I7I6I6', mine)
else
  mine = false
end

if action == 'a' then
  if mine then
    outcome = w == weight and 1 or 4
  elseif weight > limit then
    outcome = 5
  elseif held + weight > limit then
    outcome = 2
  else
    -- Larger than any before, also than those of a record that was lost: less than one in a
    -- microsecond is given.
    fence = max(fence + 1, t[1] * 1000000 + t[2])
    w, f, born, till = weight, fence, now, now + min(lease, longest)
    put(id, w, f, born, till)
    held = held + w
  end
elseif action == 'n' then
  if mine then
    local next = min(now + lease, born + longest)
    if next > till then
      till = next
      put(id, w, f, born, till)
    end
  else
    outcome = 3
  end
elseif action == 'r' then
  if mine then
    remove(id)
    held, till = held - w, now
  else
    outcome = 3
  end
elseif action == 'k' then
  local left = tonumber(ARGV[9])
  if mine then
    outcome = 1
    local next = min(now + left, born + longest)
    if next > till then
      till = next
      put(id, w, f, born, till)
    end
  elseif left > 0 then
    w, f, born, till = weight, tonumber(ARGV[7]), max(now - tonumber(ARGV[8]), 0), now + left
    fence = max(fence, f)
    put(id, w, f, born, till)
    held = held + w
  else
    outcome = 3
  end
end

if written then
  redis.call('HSET', KEYS[1], '#', pack('>I7I7I6', max(held, 0), fence, now))
  -- As long as the last lease and an hour: no lease outlives the longest hold.
  local ttl = max(redis.call('PTTL', KEYS[1]), till - now + 3600000)
  redis.call('PEXPIRE', KEYS[1], ttl)
  redis.call('PEXPIRE', KEYS[2], ttl)
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return {t[1], t[2], outcome, held, damaged, over, w, string.format('%.0f', f), max(till - now, 0),
  max(now - born, 0), first[2] and max(tonumber(first[2]) - now, 0) or -1}

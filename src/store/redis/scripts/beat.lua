-- A worker announces itself among those that share this store, or takes itself out.
--   KEYS  the membership
--   ARGV  name, incarnation (8 bytes), what, the latest epoch it has read, its lease, how long a
--         silent member counts, the longest lease of any, the key's time to live (all in ms), most
--         members
-- what: 'n' the first of a process, which takes over what stands under its name; 'b' again;
--       'l' it leaves.
-- The value: 'm' history(6) epoch(6) latest-beat(6), then a member each:
--            length(1) name incarnation(8) joined(6) seen(6) lease-until(6)
-- The reply: seconds and microseconds of TIME, what came of it, whether a damaged value was thrown
--            away, the value.
--   0 announced, 1 another process announces itself by this name, 2 there is no room, 3 left
local sub, pack, unpack = string.sub, struct.pack, struct.unpack
local name, incarnation, what = ARGV[1], ARGV[2], ARGV[3]
local seen, lease, silent = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local longest, most = tonumber(ARGV[7]), tonumber(ARGV[9])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

-- A history begins with the time as its first epoch, so that none of its epochs was one of an
-- earlier history.
local history, epoch, others, me = now, now, {}, nil

local function read(value)
  if #value < 19 or sub(value, 1, 1) ~= 'm' then return false end
  local latest
  history, epoch, latest = unpack('>I6I6I6', value, 2)
  if history > epoch or epoch >= 2 ^ 47 then return false end
  -- Time in which nobody announced anything, or by which the clock was set, proves nothing about
  -- anyone's silence.
  local shift = now - latest
  if shift >= 0 and shift <= lease / 2 then shift = 0 end
  local at = 20
  while at <= #value do
    local n = string.byte(value, at)
    local last = at + n + 26
    if n == 0 or last > #value then return false end
    local who = sub(value, at + 1, at + n)
    local joined, ack, till = unpack('>I6I6I6', value, at + n + 9)
    if joined > epoch or ack > epoch or string.find(who, '[^!-~]') then return false end
    if shift ~= 0 then till = till + shift end
    if till > now + longest then till = now + longest end
    if till < 0 then till = 0 end
    local counts = till + silent > now
    if who == name then
      if me then return false end
      me = {from = sub(value, at + n + 1, at + n + 8), joined = joined, ack = ack, till = till,
        counts = counts}
    elseif counts then
      if #others >= most then return false end
      others[#others + 1] = sub(value, at, at + n + 20) .. pack('>I6', till)
    end
    at = last + 1
  end
  return true
end

local value, damaged = redis.pcall('GET', KEYS[1]), 0
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
if value and (type(value) ~= 'string' or not read(value)) then
  history, epoch, others, me, damaged = now, now, {}, nil, 1
  value = false
end
if me and not me.counts then me = nil end

local outcome = 0
if what == 'l' then
  outcome = 3
  if me and me.from ~= incarnation then outcome = 1 end
elseif me then
  if me.from ~= incarnation and what ~= 'n' then outcome = 1 end
  if seen > epoch then seen = 0 end
  if seen > me.ack then me.ack = seen end
elseif #others >= most then
  outcome = 2
else
  -- A joiner has read what it joined: until then it spends nothing.
  if value then epoch = epoch + 1 end
  me = {joined = epoch, ack = epoch}
end

if outcome == 0 then
  me.from, me.till = incarnation, now + lease
end
if me and outcome ~= 3 then
  others[#others + 1] = string.char(#name) .. name .. me.from .. pack('>I6I6I6', me.joined, me.ack, me.till)
end
local after = 'm' .. pack('>I6I6I6', history, epoch, now) .. table.concat(others)
if outcome == 0 or outcome == 3 then redis.call('SET', KEYS[1], after, 'PX', ARGV[8]) end
return {t[1], t[2], outcome, damaged, after}

-- One action on a circuit breaker that a fleet shares.
--   KEYS  the record, and what changes with every change of any: who sees it unchanged need not read
--   ARGV  action, who (8 bytes), epoch and round the caller knows, a, b, c, the numbers (packed):
--         open wait, its maximum (4 each), jitter in thousandths + 500 (2), probes, in flight, needed
--         (2 each), probe deadline (4), whether an expired probe has failed (1), longest half-open (4),
--         length of recovering (4), closed time that forgets openings (4), longest wanted wait (4),
--         thousandths of the voters that open (2), most voters (2); times in ms; a note
-- action: 'r' read
--         'v' vote      a: 'b' bad, 'B' bad by what was seen a while ago, or 'g' good, b: how long it
--                       counts, c: wanted wait
--         't' trip      c: wanted wait. Whatever others say, and half-open, too
--         'p' probe     may this caller send one?
--         's' settle    a: 'o' ok, 'f' failed or 'n' neither, b: the probe's number, c: wanted wait
--         'f' force     a: 'a' automatic, 'O' open or 'C' closed, b: for how long, 0 for good; with
--                       an epoch, only where no record stands, or one of that epoch. The note,
--                       whose and why, is kept with the mode
-- The value, where an automatic mode's `until` is when it was set: 'd' state epoch(6) round(4) openings(2) since(6) until(6) mode mode-until(6) ok(2) bad(2)
--            next(4) votes(2) note(2), then the note; then a vote each: who(8) flag till(6); then a
--            probe each: who(8) number(4) till(6)
-- Every change of state is published, on a channel of the second key's name: a hint to look there.
-- The reply: seconds and microseconds of TIME, what came of it, the probe's number, whether a damaged
--            value was thrown away, the value ('' where none is kept).
--   0 done, or nothing to do; 1 a probe may go; 2 none may; 3 the caller's epoch, round or probe is not
--   the record's, so nothing it said counted
local sub, byte, pack, unpack = string.sub, string.byte, struct.pack, struct.unpack
local floor, max, min = math.floor, math.max, math.min
local action, me, epoch, round = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local a, b, c, note = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[9]
local open_wait, max_wait, jitter, probes, in_flight, needed, deadline, expired_fails, max_half,
  ramp, forget, max_wanted, quorum, most = unpack('>I4I4I2I2I2I2I4I1I4I4I4I4I2I2', ARGV[8])
local t = redis.call('TIME')
local now = t[1] * 1000 + floor(t[2] / 1000)

-- An epoch begins with the time, so that none of a record's epochs was one of an earlier record, nor
-- of what a failover has lost of this one.
local r = {state = 'c', epoch = now, round = 0, openings = 0, since = now, till = 0, mode = 'a',
  mode_till = 0, ok = 0, bad = 0, next = 1, votes = {}, probes = {}, note = ''}

local function read(v)
  if #v < 45 or sub(v, 1, 1) ~= 'd' then return false end
  local got, votes, noted = {votes = {}, probes = {}}, nil, nil
  got.state, got.epoch, got.round, got.openings, got.since, got.till, got.mode, got.mode_till,
    got.ok, got.bad, got.next, votes, noted = unpack('>c1I6I4I2I6I6c1I6I2I2I4I2I2', v, 2)
  if not string.find('cohr', got.state, 1, true) or not string.find('aOC', got.mode, 1, true) then
    return false
  end
  local at = 46 + noted
  got.note = sub(v, 46, at - 1)
  if #v < at - 1 + votes * 15 then return false end
  for i = 1, votes do
    local who, flag, till = unpack('>c8c1I6', v, at)
    -- A clock that was set back keeps no vote alive.
    if till > now and till <= now + 3600000 then got.votes[#got.votes + 1] = {who = who, flag = flag, till = till} end
    at = at + 15
  end
  if (#v - at + 1) % 18 ~= 0 then return false end
  while at <= #v do
    local who, number, till = unpack('>c8I4I6', v, at)
    got.probes[#got.probes + 1] = {who = who, number = number, till = till}
    at = at + 18
  end
  -- A state that begins in the future was written before the clock was set back: its time is over,
  -- or it would last for as long as the clock was set back by.
  if got.since > now + 1000 then got.since, got.till = now - max_half, now end
  r = got
  return true
end

local v, damaged = redis.pcall('GET', KEYS[1]), 0
if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then return v end
local found = type(v) == 'string' and read(v)
if v and not found then damaged = 1 end

local outcome, number, moved, written = 0, 0, false, false

-- To another state: what the one before collected is over.
local function go(state, till)
  r.epoch = max(r.epoch + 1, now)
  r.state, r.since, r.till, r.ok, r.bad, r.votes, r.probes = state, now, till, 0, 0, {}, {}
  moved = true
end

local function open(wanted)
  if r.state == 'c' and now - r.since >= forget then r.openings = 0 end
  local wait = open_wait
  for i = 1, r.openings do
    if wait < max_wait then wait = wait * 2 end
  end
  wait = min(wait, max_wait)
  wait = wait + floor(wait * (jitter - 500) / 1000)
  wait = max(wait, min(wanted, max_wanted))
  r.openings = min(r.openings + 1, 60)
  go('o', now + max(wait, 1))
end

local function close()
  if ramp > 0 and r.state == 'h' then go('r', now + ramp) else go('c', 0) end
end

-- The probes that are still out; those that are not have failed, or are forgotten. Nothing is
-- written by looking: whoever looks next sees the same.
local function live()
  local out, bad = {}, r.bad
  for _, p in ipairs(r.probes) do
    if p.till > now then out[#out + 1] = p elseif expired_fails == 1 then bad = bad + 1 end
  end
  return out, bad
end

-- What time alone brings about.
local function pass()
  if r.mode ~= 'a' and r.mode_till > 0 and now >= r.mode_till then
    r.mode, r.mode_till, r.note = 'a', 0, ''
    go('c', 0)
  end
  if r.mode ~= 'a' then return end
  if r.state == 'h' then
    local _, bad = live()
    if bad > probes - needed or now >= r.since + max_half then open(0) end
  elseif r.state == 'r' and now >= r.till then
    go('c', 0)
  end
end

local function vote()
  local votes, mine, bads, flag = {}, nil, 0, a == 'B' and 'b' or a
  for _, x in ipairs(r.votes) do
    if x.who == me then mine = x else
      votes[#votes + 1] = x
      if x.flag == 'b' then bads = bads + 1 end
    end
  end
  if not mine and #votes >= most then outcome = 2; return end
  -- What says the same, and goes on counting for half its time, need not be said again.
  local same = mine and mine.flag == flag and mine.till > now + b / 2
  votes[#votes + 1] = {who = me, flag = flag, till = now + b}
  if flag == 'b' then bads = bads + 1 end
  local n = #votes
  -- Who is alone opens by what it has just seen.
  local enough = n == 1 and a == 'b' and 1 or max(2, math.ceil(n * quorum / 1000))
  if bads >= enough then open(c); return end
  if same then return end
  r.votes, written = votes, true
end

local function probe()
  if r.mode == 'O' then outcome = 2; return end
  if r.mode == 'C' then return end
  if r.state == 'o' then
    if now < r.till then outcome = 2; return end
    go('h', now + max_half)
    r.round, r.next = (r.round + 1) % 4294967296, now % 4294967295 + 1
  end
  if r.state ~= 'h' then return end
  local out, bad = live()
  if #out >= in_flight or #out + r.ok + bad >= probes then outcome = 2; return end
  -- Numbers go with the time, too: one that a failover has lost is not given out again.
  local fresh = now % 4294967295 + 1
  number, r.bad = (fresh - r.next) % 4294967296 < 2147483648 and fresh or r.next, bad
  r.next = number % 4294967295 + 1
  out[#out + 1] = {who = me, number = number, till = now + deadline}
  r.probes, written, outcome = out, true, 1
end

local function settle()
  outcome = 3
  if r.state ~= 'h' or r.mode ~= 'a' or r.epoch ~= epoch or r.round ~= round then return end
  local out, bad = live()
  for i, p in ipairs(out) do
    if p.who == me and p.number == b then
      table.remove(out, i)
      r.probes, r.bad, written, outcome = out, bad, true, 0
      if a == 'o' then r.ok = r.ok + 1 elseif a == 'f' then r.bad = bad + 1 end
      if r.ok >= needed then close() elseif r.bad > probes - needed then open(c) end
      return
    end
  end
end

if action ~= 'r' then pass() end
if action == 'v' or action == 't' then
  -- Before the first record there is no epoch to know.
  local current = r.epoch == epoch or not found and epoch == 0
  local open_to_it = r.state == 'c' or r.state == 'r' or action == 't' and r.state == 'h'
  if moved or not current or r.mode ~= 'a' or not open_to_it then
    outcome = 3
  elseif action == 'v' then
    vote()
  else
    open(c)
  end
elseif action == 'p' then
  probe()
elseif action == 's' then
  settle()
elseif action == 'f' then
  if epoch > 0 and found and r.epoch ~= epoch then
    outcome = 3
  else
    r.mode, r.mode_till, r.note = a, a == 'a' and now or b > 0 and now + b or 0, note
    if a == 'a' then r.openings = 0 end
    -- Told by a round that is not 0 from a record that was just made: whoever is open closes.
    r.round = (r.round + 1) % 4294967296
    go('c', 0)
  end
end

if moved or written then
  local out = {'d', pack('>c1I6I4I2I6I6c1I6I2I2I4I2I2', r.state, r.epoch, r.round, r.openings,
    r.since, r.till, r.mode, r.mode_till, r.ok, r.bad, r.next, #r.votes, #r.note), r.note}
  for _, x in ipairs(r.votes) do out[#out + 1] = pack('>c8c1I6', x.who, x.flag, x.till) end
  for _, p in ipairs(r.probes) do out[#out + 1] = pack('>c8I4I6', p.who, p.number, p.till) end
  v = table.concat(out)
  -- Only a change of state moves the time to live: neither votes nor denials keep a record.
  local ttl = moved and -1 or redis.call('PTTL', KEYS[1])
  if ttl < 0 then
    ttl = max(r.till - now, 0) + max(r.mode_till - now, 0) + max_half + ramp + 86400000
    -- What an operator set for good outlives a year in which nobody called.
    if r.mode ~= 'a' and r.mode_till == 0 then ttl = ttl + 34560000000 end
  end
  redis.call('SET', KEYS[1], v, 'PX', ttl)
  if moved then
    local news = t[1] .. '.' .. t[2] .. ' ' .. r.epoch .. ' ' .. KEYS[1]
    redis.call('SET', KEYS[2], news, 'PX', 86400000)
    -- Who may not publish is found by those who look.
    redis.pcall('PUBLISH', KEYS[2], news)
  end
elseif not found then
  v = ''
end
return {t[1], t[2], outcome, number, damaged, v}

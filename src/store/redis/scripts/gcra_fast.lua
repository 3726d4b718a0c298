-- Decides an ask: all its counters, all or nothing, in one run. docs/internals/redis.md has the protocol.
--
-- This first part answers the commonest ask, one gcra counter that takes, without a detour:
--   KEYS[1]  the counter
--   ARGV[1]  head (24 bytes), increment, tolerance, not-after (pairs), cost (5 bytes)
-- What is unusual about it (other numbers, a damaged value, a clock that was set) goes on below.
-- A pair is (seconds, nanoseconds) in 5 and 4 bytes: doubles hold neither 19 digits nor their sums.
-- The reply is the value found, where that alone denies; or the time, the value, and 1 where charged.
local ask, key = ARGV[1], KEYS[1]
local unpack, pack, sub, call, try = struct.unpack, struct.pack, string.sub, redis.call, redis.pcall
local t, s, n
if ARGV[2] then
  t = call('TIME')
  s, n = t[1] + 0, t[2] * 1000
else
  local v = try('GET', key)
  local is, i9, us, u9, ls, l9 = unpack('>I5I4I5I4I5I4', ask, 25)
  local head, vs, v9 = sub(ask, 1, 24)
  local plain = not v
  if v and #v == 33 then
    plain = sub(v, 1, 24) == head
    if not plain and sub(v, 1, 18) == sub(head, 1, 18) then
      plain = true
      if unpack('>I6', v, 19) > unpack('>I6', head, 19) then head = sub(v, 1, 24) end
    end
    vs, v9 = unpack('>I5I4', v, 25)
    if plain and vs <= ls + us then
      -- Denied at every time until not-after: no need to ask for the time. One in sixteen goes on,
      -- to look whether the key has lost its time to live.
      local hs, h9, ws, w9 = ls + us, l9 + u9, vs + is, v9 + i9
      if h9 >= 1e9 then hs, h9 = hs + 1, h9 - 1e9 end
      if w9 >= 1e9 then ws, w9 = ws + 1, w9 - 1e9 end
      if (ws > hs or ws == hs and w9 > h9) and (vs < hs or v9 <= h9) and l9 % 16 > 0 then
        return v
      end
    end
  end
  t = call('TIME')
  s, n = t[1] + 0, t[2] * 1000
  if s > ls or s == ls and n > l9 then
    t[3] = 2
    return t
  end
  if plain then
    if not vs or vs < s or vs == s and v9 < n then vs, v9 = s, n end
    local hs, h9, ws, w9 = s + us, n + u9, vs + is, v9 + i9
    if h9 >= 1e9 then hs, h9 = hs + 1, h9 - 1e9 end
    if w9 >= 1e9 then ws, w9 = ws + 1, w9 - 1e9 end
    if ws < hs or ws == hs and w9 <= h9 then
      local ms = (ws - s) * 1000 + (w9 - n) / 1e6
      call('SET', key, head .. pack('>I5I4', ws, w9), 'PX', ms - ms % 1 + 1001)
      t[3], t[4] = v, 1
      return t
    end
    if v and l9 % 16 > 0 and (vs < hs + 1 or vs == hs + 1 and v9 <= h9) then
      t[3] = v
      return t
    end
  end
end

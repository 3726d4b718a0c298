-- Decides an ask: all its counters, all or nothing, in one run. docs/internals/redis.md has the protocol.
--
-- This first part answers the commonest ask, one gcra counter that takes, without a detour:
--   KEYS[1]  the counter
--   ARGV[1]  two pairs: what a stored time must exceed, and what it must not, for the ask to be denied
--            at every time until not-after; then the counter's record, and not-after (pair)
-- What is unusual about it (other numbers, a damaged value, a clock that was set) goes on below.
-- A pair is (seconds, nanoseconds) in 5 and 4 bytes: doubles hold neither 19 digits nor their sums.
-- The reply is the value found, where that alone denies; or the time, the value, and 1 where charged.
local ask, key = ARGV[1], KEYS[1]
local unpack, call = struct.unpack, redis.call
local t, s, n
if not ARGV[2] then
  local v = redis.pcall('GET', key)
  local ds, d9, hs, h9, head, load = unpack('>I5I4I5I4c18I6', ask)
  local plain, own, vload, vs, v9 = not v
  if v and #v == 33 then
    own, vload, vs, v9 = unpack('>c18I6I5I4', v)
    plain = own == head and v9 < 1e9
    -- One in sixteen asks for the time all the same: so that it stays known.
    if plain and (vs > ds or vs == ds and v9 > d9) and (vs < hs or vs == hs and v9 <= h9) and
      d9 % 16 > 0 then
      return v
    end
    if vload > load then load = vload end
  end
  local is, i9, us, u9, _, ls, l9 = unpack('>I5I4I5I4I5I5I4', ask, 43)
  t = call('TIME')
  s, n = t[1] + 0, t[2] * 1000
  if s > ls or s == ls and n > l9 then
    t[3] = 2
    return t
  end
  if plain then
    if load > s * 1000 + 999 then load = s * 1000 end
    if not vs or vs < s or vs == s and v9 < n then vs, v9 = s, n end
    local ws, w9
    hs, h9, ws, w9 = s + us, n + u9, vs + is, v9 + i9
    if h9 >= 1e9 then hs, h9 = hs + 1, h9 - 1e9 end
    if w9 >= 1e9 then ws, w9 = ws + 1, w9 - 1e9 end
    if ws < hs or ws == hs and w9 <= h9 then
      local ms = (ws - s) * 1000 + (w9 - n) / 1e6
      call('SET', key, struct.pack('>c18I6I5I4', head, load, ws, w9), 'PX', ms - ms % 1 + 1001)
      t[3], t[4] = v, 1
      return t
    end
    -- Denied, unless the stored time is out of reach.
    if v and (vs < hs + 1 or vs == hs + 1 and v9 <= h9) then
      if d9 % 16 == 0 and call('PTTL', key) == -1 then
        local ms = (vs - s) * 1000 + (v9 - n) / 1e6
        call('PEXPIRE', key, ms - ms % 1 + 1001)
      end
      t[3] = v
      return t
    end
  end
end

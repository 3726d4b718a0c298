
-- The ask in full:
--   KEYS[1..N]    the counters, then the records of those that bring owed units, in the same order
--   ARGV[1]       not-after (pair), N, whether now is given, now (pair), margin in ms, whether plain
--   ARGV[2..N+1]  a record each, by kind; in brackets, what is left out where it is a plain take:
--     g limit burst interval load  increment tolerance  cost  [op flags receipt]
--     f limit load  window's start, its end, the next one's end, length  cost  [op flags receipt]
--     w as f
--     l limit load  length  cost  [op flags receipt]
--   ARGV[N+2..]   what counters with flag 2 (owed) and flag 4 (last known state) bring, in order
-- The reply: seconds and microseconds of TIME, then
--   0 denied, 1 allowed, and a report for each counter
--   2 late, 3 outside the windows that were sent: nothing was written
--   4 denied, 5 allowed, and the value found for each counter
--
-- This second part answers plain takes of gcra and fixed windows. It leaves to the rest, before
-- anything is written, what is unusual about a value.
local count, margin = 1, 1000
if ARGV[2] then
  t = call('TIME')
  s, n = t[1] + 0, t[2] * 1000
  local ls, l9, given, ns, n9, plain
  ls, l9, count, given, ns, n9, margin, plain = unpack('>I5I4BBI5I4I4B', ask)
  if s > ls or s == ls and n > l9 then
    t[3] = 2
    return t
  end
  if plain == 1 then
    local values, lives, allowed = {}, {}, 5
    for i = 1, count do
      local record, v = ARGV[i + 1], redis.pcall('GET', KEYS[i])
      local ms
      if #record == 47 then
        local head, load, is, i9, us, u9 = unpack('>c18I6I5I4I5I4', record)
        local vs, v9 = s, n
        if v then
          if #v ~= 33 then plain = 0 break end
          local own, vload, as, a9 = unpack('>c18I6I5I4', v)
          if own ~= head or a9 >= 1e9 then plain = 0 break end
          if vload > load then load = vload end
          if as > s or as == s and a9 > n then vs, v9 = as, a9 end
        end
        local hs, h9, ws, w9 = s + us, n + u9, vs + is, v9 + i9
        if h9 >= 1e9 then hs, h9 = hs + 1, h9 - 1e9 end
        if w9 >= 1e9 then ws, w9 = ws + 1, w9 - 1e9 end
        if ws < hs or ws == hs and w9 <= h9 then
          if load > s * 1000 + 999 then load = s * 1000 end
          values[i] = struct.pack('>c18I6I5I4', head, load, ws, w9)
          ms = (ws - s) * 1000 + (w9 - n) / 1e6
        else
          allowed = 4
          if vs > hs + 1 or vs == hs + 1 and v9 > h9 then plain = 0 break end
        end
      else
        local limit, load, as, a9, bs, b9, es, e9, _, _, cost =
          unpack('>I4I6I5I4I5I4I5I4I5I4I5', record, 2)
        if s < as or s == as and n < a9 or s > es or s == es and n >= e9 then
          return {t[1], t[2], 3}
        end
        if s > bs or s == bs and n >= b9 then as, a9, bs, b9 = bs, b9, es, e9 end
        local used = 0
        if v then
          if #v ~= 24 then plain = 0 break end
          local kind, vlimit, vload, vs, v9, vused = unpack('>c1I4I6I5I4I4', v)
          if kind ~= 'f' or vlimit ~= limit or v9 >= 1e9 or vs > as or vs == as and v9 > a9 then
            plain = 0
            break
          end
          if vload > load then load = vload end
          if vs == as and v9 == a9 then used = vused end
        end
        if used + cost <= limit then
          if load > s * 1000 + 999 then load = s * 1000 end
          values[i] = struct.pack('>c1I4I6I5I4I4', 'f', limit, load, as, a9, used + cost)
          ms = (bs - s) * 1000 + (b9 - n) / 1e6
        else
          allowed = 4
        end
      end
      if ms then lives[i] = ms - ms % 1 + 1001 end
      t[i + 3] = v
    end
    -- One denial in sixteen goes on, to look whether a key has lost its time to live.
    if plain == 1 and (allowed == 5 or t[2] % 16 > 0) then
      if allowed == 5 then
        for i = 1, count do call('SET', KEYS[i], values[i], 'PX', lives[i]) end
      end
      t[3] = allowed
      return t
    end
    t = {t[1], t[2]}
  end
  if given == 1 then s, n = ns, n9 end
end

-- The rest answers everything, and takes apart only what it needs for it.
local pack, sub, try = struct.pack, string.sub, redis.pcall
local has = {}
for i = 1, count do has[sub(ARGV[2] and ARGV[i + 1] or 'g', 1, 1)] = true end

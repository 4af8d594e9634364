-- Counts the ids in an open index.
--
-- KEYS  1 the open index
-- ARGV  1 how many may be taken out
-- Also touches the records that the index names.
--
-- Returns the count. A record that went without the sweeper (evicted, or after a long outage) leaves its id behind,
-- and would count for ever. It outlives its deadline, so that such ids come first.

-- The index is named by 32 digits behind two characters.
local base = string.sub(KEYS[1], 1, -35)
for _ = 1, tonumber(ARGV[1]) do
  local first = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not first or redis.call('EXISTS', base .. 'r:' .. first) == 1 then break end
  redis.call('ZREM', KEYS[1], first)
end
return redis.call('ZCARD', KEYS[1])

-- Takes ids out of a group's indexes whose records are gone, looking again as one may have come since.
--
-- KEYS  1 the open index   2 the closed index
-- ARGV  the ids
-- Also touches the records of those ids.

-- Both indexes are named by 32 digits behind two characters.
local base = string.sub(KEYS[1], 1, -35)
for _, id in ipairs(ARGV) do
  if redis.call('EXISTS', base .. 'r:' .. id) == 0 then
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
  end
end

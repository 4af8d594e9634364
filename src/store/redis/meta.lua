-- Writes how the keys are laid out, unless that was done before.
--
-- KEYS  1 `meta`
-- ARGV  1 layout   2 partitions
--
-- Returns what is written there: {layout, partitions}.

if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'layout', ARGV[1], 'partitions', ARGV[2])
end
return redis.call('HMGET', KEYS[1], 'layout', 'partitions')

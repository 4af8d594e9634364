-- Reads one record, with the time of the node that holds it.
--
-- KEYS  1 the record
-- ARGV  1 clock offset, ms
--
-- Returns {now, format, body, state, version, created, deadline, open}.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]
return {now, unpack(redis.call('HMGET', KEYS[1],
  'format', 'body', 'state', 'version', 'created', 'deadline', 'open'), 1, 7)}

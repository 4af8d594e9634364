-- Reads one grant, with the time of the node that holds it.
--
-- KEYS  1 the grant
-- ARGV  1 clock offset, ms
--
-- Returns {now, format, leave, created, expires}.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]
return {now, unpack(redis.call('HMGET', KEYS[1], 'format', 'leave', 'created', 'expires'), 1, 4)}

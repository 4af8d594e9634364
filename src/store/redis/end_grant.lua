-- Ends a grant now, unless it is over.
--
-- KEYS  1 the grant
-- ARGV  1 clock offset, ms
-- Also touches the key that finds it and the indexes that hold it, which it names.
--
-- Returns {now, format, leave, created, expires}, as it is then. Grows nothing, so that it works when Redis is
-- out of memory.

-- A grant is named by an id of 36 characters behind two.
local base = string.sub(KEYS[1], 1, -39)
local id = string.sub(KEYS[1], -36)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]

local held = redis.call('HMGET', KEYS[1], 'expires', 'key', 'indexes')
if held[1] then
  local finds = base .. 'a:' .. (held[2] or '')
  if redis.call('GET', finds) == id then redis.call('DEL', finds) end
  for index in string.gmatch(held[3] or '', '%x+') do
    redis.call('ZREM', base .. 'l:' .. index, id)
  end
  if not (tonumber(held[1]) and tonumber(held[1]) <= now) then
    redis.call('HSET', KEYS[1], 'expires', now)
  end
end
return {now, unpack(redis.call('HMGET', KEYS[1], 'format', 'leave', 'created', 'expires'), 1, 4)}

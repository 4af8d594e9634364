-- Reads the ids in an open index.
--
-- KEYS  1 the open index
-- ARGV  1 clock offset, ms   2 the run that they must be of, or '' for all
-- Also touches the records that the index names.
--
-- Returns {now, {id, deadline, id, deadline, ...}}.

-- The index is named by 32 digits behind two characters.
local base = string.sub(KEYS[1], 1, -35)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]

local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
if ARGV[2] == '' then return {now, found} end

-- Another session may have a run of the same name. A record that cannot be read is left to the caller.
local members = {}
for i = 1, #found, 2 do
  local of = redis.pcall('HGET', base .. 'r:' .. found[i], 'run')
  if type(of) ~= 'string' or of == ARGV[2] then
    members[#members + 1] = found[i]
    members[#members + 1] = found[i + 1]
  end
end
return {now, members}

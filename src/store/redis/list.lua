-- Reads the next ids of a group in one partition, in the order of (deadline, id). One script, as a record that
-- moves from the open index to the closed one must be seen in exactly one of them.
--
-- KEYS  1 the open index; 2 the closed index, unless only open ones are asked for
-- ARGV  1 the deadline to go on from, or '-inf'   2 the id to go on behind, or ''   3 how many, per index
--
-- Returns for each index {id, deadline, id, deadline, ...}.

-- Bytewise, as sorted sets order their members; Lua's own comparison follows the server's locale.
local function behind(id, other)
  for i = 1, math.min(#id, #other) do
    local mine, theirs = string.byte(id, i), string.byte(other, i)
    if mine ~= theirs then return mine > theirs end
  end
  return #id > #other
end

local wanted = tonumber(ARGV[3])
local lists = {}
for i, index in ipairs(KEYS) do
  local list, skip = {}, 0
  repeat
    local page = redis.call('ZRANGEBYSCORE', index, ARGV[1], '+inf', 'WITHSCORES',
      'LIMIT', skip, wanted)
    for j = 1, #page, 2 do
      if #list < 2 * wanted and (page[j + 1] ~= ARGV[1] or behind(page[j], ARGV[2])) then
        list[#list + 1] = page[j]
        list[#list + 1] = page[j + 1]
      end
    end
    skip = skip + wanted
  until #list >= 2 * wanted or #page < 2 * wanted
  lists[i] = list
end
return lists

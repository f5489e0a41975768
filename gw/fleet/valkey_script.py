"""The bank in Lua, run by Valkey as one atomic step. It says what `gw.policy.lease_account` says; one suite tests both.

All keys of a fleet have the same hash tag, so a cluster keeps them on one node. Figures are whole numbers below 2^53, which Lua's
doubles hold exactly; they are written with %.0f, since Lua would write large ones as 1e+15.

    key                      type    content
    ──────────────────────   ─────   ──────────────────────────────────────────────────────────────────────────
    gw:{NAME}:seen           zset    member → milliseconds at which its last exchange was
    gw:{NAME}:runs           hash    member → its run
    gw:{NAME}:joins          str     number of runs
    gw:{NAME}:born           str     milliseconds at which the bank began
    gw:{NAME}:accounts       set     keys of the accounts
    gw:{NAME}:account:A      hash    goes when nobody has asked for it for an hour; that of a budget, a day after its period, `total` never.
                                     kind, limit, used, open, lack, wanting (how many have or lack some), tokens, at, per_s, counted,
                                     counted_at, "m:" + member (run, number, used, open, granted, lacks); of a rate also turns
                                     (number of grants), "t:" + member (turns when it got its last one)
"""

_SHARED = """
local function whole(x) return string.format('%.0f', x) end
local function entry_of(account, member)
    local text = redis.call('HGET', account, 'm:' .. member)
    if not text then return nil end
    local run, number, used, open, granted, lacks = string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
    return {run = run, number = tonumber(number), used = tonumber(used), open = tonumber(open), granted = tonumber(granted),
        lacks = tonumber(lacks)}
end
local function write(account, member, e)
    local text = table.concat({e.run, whole(e.number), whole(e.used), whole(e.open), whole(e.granted), whole(e.lacks)}, ' ')
    redis.call('HSET', account, 'm:' .. member, text)
end
local function get(account, field) return tonumber(redis.call('HGET', account, field) or '0') end
local function wants(e) return (e.open ~= 0 or e.lacks ~= 0) and 1 or 0 end
local function drop(account, member)
    local e = entry_of(account, member)
    if not e then return nil end
    local kind = redis.call('HGET', account, 'kind')
    redis.call('HSET', account, 'open', whole(get(account, 'open') - e.open), 'lack', whole(get(account, 'lack') - e.lacks),
        'wanting', whole(get(account, 'wanting') - wants(e)))
    if kind == 'rate' then
        redis.call('HSET', account, 'tokens', tostring(math.min(get(account, 'limit'), get(account, 'tokens') + e.open)))
    end
    e.open, e.granted, e.lacks = 0, 0, 0
    if kind ~= 'budget' then
        redis.call('HSET', account, 'used', whole(get(account, 'used') - e.used))
        redis.call('HDEL', account, 'm:' .. member, 't:' .. member)
        return nil
    end
    write(account, member, e)
    return e
end
local function each_account(index, action)
    for _, account in ipairs(redis.call('SMEMBERS', index)) do
        if redis.call('EXISTS', account) == 1 then action(account) else redis.call('SREM', index, account) end
    end
end
"""

EXCHANGE = (
    _SHARED
    + """
local seen, runs, born_key, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local member, run, number = ARGV[1], ARGV[2], tonumber(ARGV[3])
local settle_ms, dead_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local SCARCE_S, COUNTED_S, AHEAD_S = 2.0, 0.5, 1.0
local KEEP_MS = {day = 172800000, week = 9 * 86400000, month = 33 * 86400000}
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local now = now_ms / 1000

local newest = redis.call('HGET', runs, member)
if newest and newest > run then return {redis.call('ZCARD', seen), 1} end
redis.call('HSET', runs, member, run)
redis.call('ZADD', seen, now_ms, member)
redis.call('SET', born_key, whole(now_ms), 'NX')
local settles_s = math.max(0, tonumber(redis.call('GET', born_key)) + settle_ms - now_ms) / 1000
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', '(' .. whole(now_ms - dead_ms))) do
    redis.call('ZREM', seen, dead)
    each_account(index, function(account)
        if redis.call('HGET', account, 'kind') ~= 'budget' then drop(account, dead) end
    end)
end
local members = redis.call('ZCARD', seen)
local answer = {members, 0}

for i = 5, #KEYS do
    local account, at = KEYS[i], 6 + (i - 5) * 7
    local kind, limit = ARGV[at], tonumber(ARGV[at + 1])
    local a_used, a_open = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    local want, need, least = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
    if redis.call('EXISTS', account) == 0 then
        redis.call('HSET', account, 'kind', kind, 'limit', whole(limit), 'used', '0', 'open', '0', 'tokens', whole(limit),
            'lack', '0', 'wanting', '0', 'at', string.format('%.3f', now), 'per_s', '0', 'counted', '0',
            'counted_at', string.format('%.3f', now))
        redis.call('SADD', index, account)
    end
    local period = string.match(account, ':budget:%a+:(%a+):')
    if period == 'total' then redis.call('PERSIST', account)
    else redis.call('PEXPIRE', account, KEEP_MS[period] or (kind == 'budget' and KEEP_MS.day) or 3600000) end
    local e = entry_of(account, member)
    if not e then e = {run = run, number = 0, used = 0, open = 0, granted = 0, lacks = 0} end
    if e.run ~= run then
        e = drop(account, member) or {used = 0, open = 0, granted = 0, lacks = 0}
        e.run, e.number = run, 0
    end
    local used, open, tokens = get(account, 'used'), get(account, 'open'), get(account, 'tokens')
    local lack, wanting, per_s, wait_s = get(account, 'lack'), get(account, 'wanting'), get(account, 'per_s'), nil
    local function free_of() if kind == 'rate' then return math.floor(tokens + 1e-6) end return limit - used - open end
    local function scarce(free) return kind == 'budget' and free < SCARCE_S * per_s end
    local function wait_of()
        if kind == 'budget' then return settles_s end
        return (kind == 'rate' and tokens < 1 - 1e-6) and math.max(0, 1 - tokens) * 60 / limit or 0
    end
    local calls_ahead, turns = 0, get(account, 'turns')
    if kind == 'rate' then
        calls_ahead = 2 * limit / 60 * AHEAD_S
        if limit / 60 * AHEAD_S < 1 and members > 1 then
            local last, others = redis.call('HGET', account, 't:' .. member), members - 1
            if last then others = math.min(turns - tonumber(last), members - 1) end
            calls_ahead = math.max(calls_ahead, 1) * others / (members - 1)
        end
    end
    local function share_of(count) return math.floor(limit / math.max(1, count)) end
    if number > e.number then
        local before = get(account, 'at')
        local passed = math.max(0, now - before)
        if kind == 'rate' then
            if limit ~= get(account, 'limit') then tokens = math.min(tokens, limit) end
            tokens = math.min(math.max(tokens, limit - math.max(0, open)), tokens + passed * limit / 60)
        end
        local change = a_used + a_open - e.used - e.open
        if kind == 'rate' then
            if e.number > 0 then tokens = math.min(limit, tokens - change) end
            change = 0
        end
        local free, granted = free_of() - change, 0
        if (kind ~= 'budget' or settles_s == 0) and want > 0 then
            local ahead = kind == 'rate' and limit / 60 * AHEAD_S or 0
            local even = math.ceil(ahead / members)
            if free <= 0 then
                granted = (tokens > 1 - calls_ahead and calls_ahead > 0) and math.max(0, math.min(want, even - a_open)) or 0
            elseif lack - e.lacks > 0 then
                local share = share_of(wanting + 1 - wants(e))
                if share == 0 and e.lacks > 0 then share = 1 end
                granted = math.max(0, math.min(need, free, math.max(share - a_open, free - lack + e.lacks)))
            else
                local share = scarce(free) and 0 or math.max(math.floor(free / (2 * members)), math.min(even, free))
                granted = math.max(least, math.min(need, free), math.min(want, share))
            end
        end
        wait_s = wait_of()
        if kind == 'rate' and granted > 0 then
            tokens, turns = tokens - granted, turns + 1
            redis.call('HSET', account, 'turns', whole(turns), 't:' .. member, whole(turns))
        end
        used = used + a_used - e.used
        local counted, counted_at = get(account, 'counted'), get(account, 'counted_at')
        if e.number == 0 then
            counted = counted + a_used - e.used
            redis.call('HSET', account, 'counted', whole(counted))
        end
        if kind == 'budget' and now - counted_at >= COUNTED_S then
            local weight = 1 - 0.5 ^ ((now - counted_at) / SCARCE_S)
            local speed = math.max(0, used - counted) / (now - counted_at)
            per_s = per_s + weight * (speed - per_s)
            redis.call('HSET', account, 'per_s', tostring(per_s), 'counted', whole(used), 'counted_at', string.format('%.3f', now))
        end
        local wanted, lacks = wants(e), 0
        if kind == 'slots' and need > granted then
            lacks = math.max(0, math.min(need - granted, math.max(1, share_of(wanting + 1 - wanted)) - a_open - granted))
        end
        open, lack = open + a_open + granted - e.open, lack + lacks - e.lacks
        e.number, e.used, e.open, e.granted, e.lacks = number, a_used, a_open + granted, granted, lacks
        wanting = wanting + wants(e) - wanted
        write(account, member, e)
        redis.call('HSET', account, 'limit', whole(limit), 'used', whole(used), 'open', whole(open),
            'lack', whole(lack), 'wanting', whole(wanting),
            'tokens', string.format('%.6f', tokens), 'at', string.format('%.3f', math.max(now, before)))
    end
    wait_s = wait_s or wait_of()
    if kind == 'rate' and wait_s > 0 and e.granted == 0 then wait_s = math.max(0, wait_s - calls_ahead * 60 / limit) end
    local free = free_of()
    local share = (kind == 'slots' and lack > e.lacks) and share_of(wanting) or -1
    answer[#answer + 1] = {e.granted, whole(free), whole(used), tostring(wait_s), scarce(free) and 1 or 0, share}
end
return answer
"""
)
"""KEYS: seen, runs, born, accounts, then an account for each ask.

ARGV: member, run, number, settle_ms, dead_ms, then kind, limit, used, open, want, need, least of each ask. Returns the number of
members, 1 if a newer run has the name, and for each ask: granted, free, used, wait_s, scarce, share (-1 = none).
"""

JOIN = """
local count, runs = KEYS[1], KEYS[2]
local n = redis.call('INCR', count)
local before = tonumber(redis.call('HGET', runs, ARGV[1]) or '0')
if before >= n then
    n = before + 1
    redis.call('SET', count, n)
end
return string.format('%015.0f', n)
"""
"""KEYS: joins, runs; ARGV: member. Returns the name of its new run. The server may have lost its memory, but not the member's run."""

LEAVE = (
    _SHARED
    + """
local seen, runs, index, member, run = KEYS[1], KEYS[2], KEYS[4], ARGV[1], ARGV[2]
if run ~= '' and redis.call('HGET', runs, member) ~= run then return 0 end
redis.call('ZREM', seen, member)
each_account(index, function(account) drop(account, member) end)
return 1
"""
)
"""KEYS as above; ARGV: member, and its run ("" = any). Returns whether it was so."""

STATUS = (
    _SHARED
    + """
local seen, runs, index = KEYS[1], KEYS[2], KEYS[4]
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local members, names = {}, redis.call('HGETALL', runs)
for i = 1, #names, 2 do
    local at = redis.call('ZSCORE', seen, names[i])
    members[#members + 1] = {names[i], names[i + 1], at and whole(now_ms - tonumber(at)) or ''}
end
local accounts = {}
each_account(index, function(account)
    local fields, of = redis.call('HGETALL', account), {}
    for i = 1, #fields, 2 do
        if string.sub(fields[i], 1, 2) == 'm:' then
            local e = entry_of(account, string.sub(fields[i], 3))
            of[#of + 1] = {string.sub(fields[i], 3), whole(e.used), whole(e.open)}
        end
    end
    accounts[#accounts + 1] = {account, redis.call('HGET', account, 'kind'), redis.call('HGET', account, 'limit'),
        redis.call('HGET', account, 'used'), redis.call('HGET', account, 'open'), of}
end)
return {members, accounts}
"""
)
"""KEYS as above. Returns members (name, run, milliseconds since its last exchange, "" = dead or gone) and accounts.

An account is: key, kind, limit, used, open, and (member, used, open) of each member that has used or leased something of it.
"""

-- Figures of Redis's INFO, over a plain TCP connection.
--
--   [[check]]
--   name = "cache"
--   kind = "lua"
--   script = "/etc/ogive/checks/redis_info.lua"
--   arguments = {host = "127.0.0.1", port = "6379"}

-- After QUIT the server closes, which ends the answer.
local answer = tcp_request(check.arguments.host, tonumber(check.arguments.port), "INFO\r\nQUIT\r\n")
if answer:sub(1, 1) == "-" then
    fail(answer)
end

-- A bulk string of lines "name:value"; patterns are regular expressions.
local wanted = {used_memory = "By", connected_clients = "", total_commands_processed = "", uptime_in_seconds = "s"}
for name, value in answer:gmatch("(?m)^([a-z_]+):([0-9.]+)\r?$") do
    if wanted[name] then
        measure("redis_" .. name, tonumber(value), {unit = wanted[name]})
    end
end
text("redis_version", answer:match("redis_version:([^\r\n]+)"))

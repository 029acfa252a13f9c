-- How long the certificates of several hosts are good for, as one check; the worst decides.
--
--   [[check]]
--   name = "certificates"
--   kind = "lua"
--   period = "1h"
--   script = "/etc/ogive/checks/certificate_of_names.lua"
--   arguments = {hosts = "www.example.com api.example.com:8443", days = "14"}

local least
for host, port in check.arguments.hosts:gmatch("([^ :]+)(?::([0-9]+))?") do
    local found = certificate(host, tonumber(port or 443))
    measure("certificate_left_seconds", found.seconds_left, {unit = "s", labels = {host = host}})
    measure("certificate_addresses", #dns(host), {labels = {host = host}})
    least = math.min(least or found.seconds_left, found.seconds_left)
end
if least < tonumber(check.arguments.days) * 86400 then
    fail(string.format("a certificate ends in %.1f days", least / 86400))
end

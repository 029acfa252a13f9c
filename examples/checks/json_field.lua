-- A field of an HTTP JSON API as a series: how many jobs wait, by queue.
--
--   [[check]]
--   name = "jobs"
--   kind = "lua"
--   script = "/etc/ogive/checks/json_field.lua"
--   target = "http://127.0.0.1:8080/jobs.json"

local answer = http_get(check.target)
if answer.status ~= 200 then
    fail("the answer has status " .. answer.status)
end

-- {"queues": [{"name": "mail", "waiting": 3}, ...], "state": "draining"}
local jobs = json(answer.body)
for _, queue in ipairs(jobs.queues) do
    measure("jobs_waiting", queue.waiting, {labels = {queue = queue.name}})
end
measure("jobs_answer_seconds", answer.seconds, {unit = "s"})
text("jobs_state", jobs.state or "unknown")

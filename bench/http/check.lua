-- One check by route, as a proxy sends it; `pipeline` of them at once where the script is told so.
local body = '{"route":"api","descriptors":{"ip":"192.0.2.7"},"cost":1}'
wrk.method = "POST"
wrk.path = "/v1/check"
wrk.body = body
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = "application/json"
wrk.headers["User-Agent"] = "bench"

local pipeline = 1
function init(args)
  pipeline = tonumber(args[1]) or 1
  local one = wrk.format()
  batch = one:rep(pipeline)
end
function request()
  return batch
end

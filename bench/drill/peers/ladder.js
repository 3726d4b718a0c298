// An API with a limit of its own making, on ioredis: so many calls of each X-API-Key in a minute,
// counted in a fixed window of Redis.
//
//   node ladder.js CONDUCT STORE_PORT LIMIT
//
// CONDUCT: `ladder`, four rungs as they are recommended for one worker (an explicit timeout of 50 ms,
// no retry, no queue; a breaker of five failures and ten seconds; a local counter; then a policy);
// `defaults`, a try and a catch around a client as it comes: whatever fails lets the caller in.
// Prints its port.
import {createServer} from 'node:http';
import Redis from 'ioredis';

const [conduct, port, limitText] = process.argv.slice(2);
const limit = Number(limitText);
const windowMs = 60_000;
const recommended = {connectTimeout: 200, commandTimeout: 50, maxRetriesPerRequest: 1,
  enableOfflineQueue: false};
const redis = new Redis({host: '127.0.0.1', port: Number(port),
  ...(conduct === 'ladder' ? recommended : {})});
redis.on('error', () => {});

async function count(id) {
  const key = `rl:${id}`;
  const units = await redis.incr(key);
  if (units === 1) await redis.pexpire(key, windowMs);
  return units;
}

async function byDefaults(id) {
  try {
    return await count(id) <= limit;
  } catch {
    return true;
  }
}

const breaker = {failures: 0, openUntil: 0};
const threshold = 5;
const cooldownMs = 10_000;
const counters = new Map();

function locally(id) {
  const now = Date.now();
  const counter = counters.get(id);
  if (!counter || now >= counter.resetAt) {
    counters.set(id, {units: 1, resetAt: now + windowMs});
    return true;
  }
  counter.units += 1;
  return counter.units <= limit;
}

async function byLadder(id) {
  const now = Date.now();
  if (now < breaker.openUntil) return locally(id);
  try {
    const units = await count(id);
    breaker.failures = 0;
    return units <= limit;
  } catch {
    breaker.failures += 1;
    if (breaker.failures === threshold) breaker.openUntil = now + cooldownMs;
    return locally(id);
  }
}

const decide = conduct === 'ladder' ? byLadder : byDefaults;
const server = createServer(async (request, response) => {
  const allowed = await decide(request.headers['x-api-key'] ?? '');
  response.statusCode = allowed ? 200 : 429;
  response.end();
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));

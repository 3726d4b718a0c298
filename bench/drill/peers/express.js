// An Express API limited by rate-limiter-flexible on ioredis: so many calls of each X-API-Key in a
// minute.
//
//   node express.js CONDUCT STORE_PORT LIMIT
//
// CONDUCT: `express`, its documents' middleware for Express, where whatever rejects is answered with
// 429; `insured`, the same with the insurance limiter that they recommend for when the store is down,
// a limiter in memory of the whole limit.
// Both with enableOfflineQueue: false, as its documents ask for. Prints its port.
import express from 'express';
import Redis from 'ioredis';
import {RateLimiterMemory, RateLimiterRedis} from 'rate-limiter-flexible';

const [conduct, port, limitText] = process.argv.slice(2);
const rule = {points: Number(limitText), duration: 60};
const storeClient = new Redis({host: '127.0.0.1', port: Number(port), enableOfflineQueue: false});
storeClient.on('error', () => {});
const limiter = new RateLimiterRedis({storeClient, keyPrefix: 'drill', ...rule,
  ...(conduct === 'insured' ? {insuranceLimiter: new RateLimiterMemory(rule)} : {})});

const app = express();
app.use((request, response, next) => {
  limiter.consume(request.get('x-api-key') ?? '')
    .then(() => next())
    .catch(() => response.status(429).send('Too Many Requests'));
});
app.get('/', (request, response) => response.send('here'));
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port));

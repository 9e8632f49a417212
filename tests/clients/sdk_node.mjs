// sdk_node.mjs - OpenAI's SDK for Node: whole answers, streams, calls, and its WebSocket.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { check, finish, url, key, model } from './report.mjs';

const require = createRequire(process.env.CLIENTS + '/node/package.json');
const OpenAI = require('openai').default;
const { ResponsesWS } = require('openai/resources/responses/ws');
const { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } =
  require('openai/helpers/zod');
const { z } = require('zod');

const client = new OpenAI({ apiKey: key, baseURL: url + '/v1', maxRetries: 0 });
const tool = {
  type: 'function', name: 'look_up', description: 'Looks a word up.', strict: false,
  parameters: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
};

await check('node: models', async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.ok(ids.includes(model), ids.join());
});
await check('node: a whole answer', async () => {
  const r = await client.responses.create({ model, input: 'say hello' });
  assert.equal(r.output_text, 'Hello, world.');
  const again = await client.responses.retrieve(r.id);
  assert.equal(again.output_text, 'Hello, world.');
  const items = await client.responses.inputItems.list(r.id);
  assert.equal(items.data.length, 1);
  await client.responses.delete(r.id);
  await assert.rejects(client.responses.retrieve(r.id), OpenAI.NotFoundError);
});
await check('node: a stream, by hand and by the helper', async () => {
  let text = '', n = 0;
  const stream = await client.responses.create({ model, input: 'say hello', stream: true });
  for await (const e of stream) {
    assert.equal(e.sequence_number, n++);
    if (e.type === 'response.output_text.delta') text += e.delta;
  }
  assert.equal(text, 'Hello, world.');
  const final = await client.responses.stream({ model, input: 'say hello' }).finalResponse();
  assert.equal(final.output_text, 'Hello, world.');
});
await check('node: a call and its result', async () => {
  const r = await client.responses.create({ model, input: 'look up cerium', tools: [tool] });
  const item = r.output.find((i) => i.type === 'function_call');
  assert.deepEqual(JSON.parse(item.arguments), { word: 'cerium' });
  const next = await client.responses.create({
    model, previous_response_id: r.id, tools: [tool],
    input: [{ type: 'function_call_output', call_id: item.call_id, output: 'a metal' }],
  });
  assert.equal(next.output_text, 'Cerium is a metal.');
});
const LookUp = z.object({ word: z.string() });
const Metal = z.object({ name: z.string(), degrees: z.number() });
await check('node: strict tools and outputs of a schema are parsed', async () => {
  let r = await client.responses.parse({ model, input: 'as a record',
    text: { format: zodTextFormat(Metal, 'metal') } });
  assert.deepEqual(r.output_parsed, { name: 'cerium', degrees: 795 });
  r = await client.responses.parse({ model, input: 'look up cerium',
    tools: [zodResponsesFunction({ name: 'look_up', parameters: LookUp })] });
  const item = r.output.find((i) => i.type === 'function_call');
  assert.deepEqual(item.parsed_arguments, { word: 'cerium' });
  const chat = await client.chat.completions.parse({ model,
    messages: [{ role: 'user', content: 'as a record' }],
    response_format: zodResponseFormat(Metal, 'metal') });
  assert.deepEqual(chat.choices[0].message.parsed, { name: 'cerium', degrees: 795 });
});
await check('node: the runner calls tools by itself', async () => {
  const words = [];
  const runner = client.chat.completions.runTools({ model, stream: true,
    messages: [{ role: 'user', content: 'look up cerium' }],
    tools: [zodFunction({ name: 'look_up', parameters: LookUp,
      function: ({ word }) => { words.push(word); return 'a metal'; } })] });
  assert.equal(await runner.finalContent(), 'Cerium is a metal.');
  assert.deepEqual(words, ['cerium']);
});
await check('node: chat, whole and streamed', async () => {
  const messages = [{ role: 'user', content: 'say hello' }];
  const r = await client.chat.completions.create({ model, messages });
  assert.equal(r.choices[0].message.content, 'Hello, world.');
  const runner = client.chat.completions.stream({ model, messages });
  assert.equal(await runner.finalContent(), 'Hello, world.');
});
await check('node: an aborted stream stops', async () => {
  const controller = new AbortController();
  const stream = await client.responses.create({ model, input: 'talk for long', stream: true },
    { signal: controller.signal });
  let n = 0;
  for await (const e of stream) {
    if (e.type === 'response.output_text.delta' && ++n === 3) controller.abort();
  }
  assert.ok(n >= 3 && n < 1000, `${n} deltas, aborted after 3`);
});

// One answer over the socket: its events, up to the last.
async function answer(events) {
  const seen = [];
  for (;;) {
    const { value, done } = await events.next();
    assert.ok(!done, 'the socket ended');
    if (value.type === 'error') return [...seen, value];
    if (value.type !== 'message') continue;
    seen.push(value.message);
    if (/^response\.(completed|failed|incomplete)$/.test(value.message.type)) return seen;
  }
}

await check('node: ResponsesWS, a turn, an error and a follow-up', async () => {
  const ws = new ResponsesWS(client);
  const events = ws[Symbol.asyncIterator]();
  ws.send({ type: 'response.create', model, input: 'say hello', store: false });
  const first = (await answer(events)).at(-1).response;
  assert.equal(first.output[0].content[0].text, 'Hello, world.');
  ws.send({ type: 'response.create', model, input: 'x', temperature: 9 });
  const error = (await answer(events)).at(-1);
  assert.equal(error.type, 'error');
  ws.send({ type: 'response.create', model, input: 'say hello again', store: false,
    previous_response_id: first.id });
  const second = (await answer(events)).at(-1).response;
  assert.equal(second.output[0].content[0].text, 'Hello, world.');
  assert.equal(second.previous_response_id, first.id);
  ws.close();
});
await check('node: ResponsesWS, 20 at once', async () => {
  await Promise.all(Array.from({ length: 20 }, async (_, i) => {
    const ws = new ResponsesWS(client);
    ws.send({ type: 'response.create', model, input: `say hello ${i}`, store: false });
    const last = (await answer(ws[Symbol.asyncIterator]())).at(-1);
    assert.equal(last.response.output[0].content[0].text, 'Hello, world.');
    ws.close();
  }));
});
await check('node: steer, accepted, committed by the successor, and refused', async () => {
  const ws = new ResponsesWS(client);
  const events = ws[Symbol.asyncIterator]();
  ws.send({ type: 'response.create', model, input: 'line by line', store: false });
  let id;
  for (;;) {
    const { value } = await events.next();
    if (value.type !== 'message') continue;
    if (value.message.type === 'response.created') id = value.message.response.id;
    if (value.message.type === 'response.output_text.delta') break;
  }
  ws.send({ type: 'response.steer', previous_response_id: id, input: 'only three' });
  const first = await answer(events);
  assert.equal(first.find((e) => /steer/.test(e.type)).type, 'response.steer.accepted');
  assert.equal(first.at(-1).response.incomplete_details.reason, 'steered');
  const second = (await answer(events)).at(-1).response;
  assert.equal(second.previous_response_id, id);
  assert.equal(second.output[0].content[0].text, 'Three.');
  ws.send({ type: 'response.steer', previous_response_id: id, input: 'too late' });
  for (;;) {
    const { value } = await events.next();
    if (value.type !== 'message') continue;
    assert.equal(value.message.type, 'response.steer.failed');
    assert.equal(value.message.error.code, 'response_already_completed');
    break;
  }
  ws.close();
});
await check('node: a response in the background, followed twice', async () => {
  const stream = await client.responses.create({ model, input: 'say hello', background: true,
    stream: true });
  let id, seen = -1;
  for await (const e of stream) {
    if (e.type === 'response.created') id = e.response.id;
    seen = e.sequence_number;
    if (seen === 2) break; /* the connection is gone */
  }
  let text = '', last;
  const rest = await client.responses.retrieve(id, { stream: true, starting_after: seen });
  for await (const e of rest) {
    assert.equal(e.sequence_number, ++seen);
    if (e.type === 'response.output_text.delta') text += e.delta;
    last = e;
  }
  assert.equal(last.type, 'response.completed');
  assert.ok('Hello, world.'.endsWith(text) && text, text);
  assert.equal((await client.responses.retrieve(id)).status, 'completed');
  const long = await client.responses.create({ model, input: 'talk for long', background: true });
  assert.ok(['queued', 'in_progress'].includes(long.status), long.status);
  await client.responses.cancel(long.id);
  const end = await client.responses.stream({ response_id: long.id }).finalResponse();
  assert.ok(['cancelled', 'completed'].includes(end.status), end.status);
});
finish('sdk_node');

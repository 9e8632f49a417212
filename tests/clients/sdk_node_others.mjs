// sdk_node_others.mjs - the SDKs of Anthropic and of Ollama for Node.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { check, finish, url, key } from './report.mjs';

const require = createRequire(process.env.CLIENTS + '/node/package.json');
const Anthropic = require('@anthropic-ai/sdk').default;
const { Ollama } = require('ollama');

const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const ask = { model: 'claude-any', max_tokens: 200 };
const schema = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] };
const tools = [{ name: 'look_up', description: 'Looks a word up.', input_schema: schema }];
const user = (content) => [{ role: 'user', content }];

await check('anthropic node: a message, whole', async () => {
  const said = await client.messages.create({ ...ask, messages: user('say hello') });
  assert.equal(said.content[0].text, 'Hello, world.');
  assert.equal(said.stop_reason, 'end_turn');
  assert.match(said._request_id, /^req_/);
});
await check('anthropic node: a stream, and what its helper makes of it', async () => {
  let text = '';
  const stream = client.messages.stream({ ...ask, tools, messages: user('look up cerium') });
  stream.on('text', (part) => (text += part));
  const said = await stream.finalMessage();
  assert.equal(text, 'I look.');
  assert.equal(said.stop_reason, 'tool_use');
  assert.deepEqual(said.content[1].input, { word: 'cerium' });
  assert.ok(said.usage.output_tokens > 0);
});
await check('anthropic node: a call and its result', async () => {
  const first = await client.messages.create({ ...ask, tools, messages: user('look up cerium') });
  const result = { type: 'tool_result', tool_use_id: first.content[1].id, content: 'a metal' };
  const said = await client.messages.create({ ...ask, tools, messages: [
    ...user('look up cerium'), { role: 'assistant', content: first.content },
    { role: 'user', content: [result] }] });
  assert.equal(said.content[0].text, 'Cerium is a metal.');
  const { cache_read_input_tokens: read, input_tokens: fresh } = said.usage;
  assert.ok(read > fresh, JSON.stringify(said.usage));
});
await check('anthropic node: a thinking budget is taken', async () => {
  const said = await client.messages.create({ ...ask, max_tokens: 4000,
    thinking: { type: 'enabled', budget_tokens: 1024 }, messages: user('say hello') });
  assert.equal(said.content.at(-1).text, 'Hello, world.');
});
await check('anthropic node: tokens are counted, models are listed', async () => {
  const n = await client.messages.countTokens({ model: 'x', messages: user('hello') });
  assert.ok(n.input_tokens > 0);
  const list = [];
  for await (const m of client.models.list({ limit: 1000 })) list.push(m.id);
  assert.ok(list.length > 0);
});
await check('anthropic node: errors are what the SDK knows', async () => {
  await assert.rejects(client.messages.create({ ...ask, messages: [] }), Anthropic.BadRequestError);
  const wrong = new Anthropic({ baseURL: url, apiKey: 'wrong', maxRetries: 0 });
  await assert.rejects(wrong.messages.create({ ...ask, messages: user('x') }),
    Anthropic.AuthenticationError);
  const long = user('word '.repeat(60000));
  await assert.rejects(client.messages.create({ ...ask, messages: long }),
    (e) => e instanceof Anthropic.BadRequestError && /prompt is too long/.test(e.message));
});
await check('anthropic node: an abandoned stream ends', async () => {
  const stream = client.messages.stream({ ...ask, max_tokens: 8000,
    messages: user('talk for long') });
  for await (const event of stream) {
    if (event.type === 'content_block_delta') break;
  }
  stream.abort();
});

const ollama = new Ollama({ host: url, headers: { authorization: `Bearer ${key}` } });
const nested = [{ type: 'function', function: { name: 'look_up', description: 'Looks a word up.',
  parameters: schema } }];

await check('ollama node: list, show, ps, version', async () => {
  const { models } = await ollama.list();
  const shown = await ollama.show({ model: models[0].name });
  assert.ok(shown.capabilities.includes('completion'), shown.capabilities.join());
  assert.equal((await ollama.ps()).models[0].model, models[0].model);
  assert.match((await ollama.version()).version, /^\d+\.\d+/);
});
await check('ollama node: chat, whole and streamed', async () => {
  const model = (await ollama.list()).models[0].name;
  const said = await ollama.chat({ model, messages: user('say hello') });
  assert.equal(said.message.content, 'Hello, world.');
  let text = '', last;
  const parts = await ollama.chat({ model, messages: user('say hello'), stream: true });
  for await (const part of parts) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, 'Hello, world.');
  assert.ok(last.done && last.done_reason === 'stop' && last.eval_count > 0);
});
await check('ollama node: a call and its result', async () => {
  const first = await ollama.chat({ model: 'm', messages: user('look up cerium'), tools: nested });
  assert.deepEqual(first.message.tool_calls[0].function.arguments, { word: 'cerium' });
  const said = await ollama.chat({ model: 'm', tools: nested, messages: [
    ...user('look up cerium'), first.message,
    { role: 'tool', tool_name: 'look_up', content: 'a metal' }] });
  assert.equal(said.message.content, 'Cerium is a metal.');
});
await check('ollama node: a format, text between two others, errors', async () => {
  const said = await ollama.chat({ model: 'm', messages: user('as a record'), format: 'json' });
  assert.equal(JSON.parse(said.message.content).name, 'cerium');
  const filled = await ollama.generate({ model: 'm', prompt: 'def f(', suffix: '):\n    pass\n',
    options: { num_predict: 8 } });
  assert.equal(typeof filled.response, 'string');
  await assert.rejects(ollama.show({ model: 'nobody' }), /not found/);
  await assert.rejects(ollama.embed({ model: 'm', input: 'x' }), /embedding/);
});
finish('sdk_node_others');

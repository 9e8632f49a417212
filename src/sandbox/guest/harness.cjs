/* harness.cjs - runs a program of JavaScript, then its tests, and says when it is past the last one.
 * The mark and the tests come on standard input.
 *
 * A program runs in the process of its tests, and may change whatever it finds.  So the tests are a
 * script of their own, in no file and in no function that the program could ask for; what was
 * changed of the language before them is undone; and an end that is no natural one has a status. */
'use strict';
const fs = require('node:fs');
const inspector = require('node:inspector');
const Module = require('node:module');
const util = require('node:util');
const v8 = require('node:v8');
const vm = require('node:vm');
const assert = require('node:assert');

const MARK_BYTES = 32, PARSE = 114, LEFT = 117;
const path = process.argv[2];
const input = fs.readFileSync(0);
const secret = input.toString('latin1', 0, MARK_BYTES);
const tests = input.toString('utf8', MARK_BYTES);
fs.closeSync(0);
fs.openSync('/dev/null');
input.fill(0);
delete process.env.LD_PRELOAD;
process.argv = [process.argv[0], path];

const { writeSync } = fs;
const { defineProperty, getOwnPropertyDescriptor } = Object;
const { ownKeys } = Reflect;
const leave = process.reallyExit.bind(process);
const inspect = util.inspect;

/* ---- what a program cannot change ---- */

const fix = (of, name, value) => {
  defineProperty(of, name, { value, writable: false, configurable: false });
};

const failed = (error) => {
  try {
    writeSync(2, `${inspect(error)}\n`);
  } finally {
    leave(1);
  }
};

let status = 0;
const close = () => {
  for (const part of [assert, assert.strict, util]) Object.freeze(part);
  process.setUncaughtExceptionCaptureCallback(failed);
  fix(process, 'setUncaughtExceptionCaptureCallback', undefined);
  fix(process, 'reallyExit', (code) => leave(code || LEFT));
  for (const name of ['binding', '_linkedBinding', 'dlopen']) fix(process, name, undefined);
  for (const name of ['Session', 'open']) fix(inspector, name, undefined);
  for (const name of ['getHeapSnapshot', 'writeHeapSnapshot', 'setHeapSnapshotNearHeapLimit']) {
    fix(v8, name, undefined);
  }
  Module.syncBuiltinESMExports();
  const descriptor = getOwnPropertyDescriptor(process, 'exitCode');
  if (descriptor && !descriptor.configurable) return; /* newer ones keep it themselves */
  defineProperty(process, 'exitCode', {
    get: () => status || undefined, set(code) { status = code || status; }, configurable: false,
  });
};

/* ---- what is undone before the tests ---- */

const LANGUAGE = ['Object', 'Array', 'JSON', 'Math', 'Number', 'String', 'Promise'];
const kept = [], shared = [];
const keep = (of) => {
  for (const name of ownKeys(of)) kept.push([of, name, getOwnPropertyDescriptor(of, name)]);
};
const keepLanguage = () => {
  for (const name of ownKeys(globalThis)) {
    const was = getOwnPropertyDescriptor(globalThis, name);
    const thing = was.value;
    if (!/^[A-Z]/.test(String(name)) || Object(thing) !== thing) continue;
    kept.push([globalThis, name, was]);
    keep(thing);
    if (Object(thing.prototype) === thing.prototype) keep(thing.prototype);
  }
  kept.push([globalThis, 'require', getOwnPropertyDescriptor(globalThis, 'require')]);
  keep(Module);
  keep(Module.prototype);
  for (const name of [...LANGUAGE, 'require']) {
    const script = new vm.Script(name);
    shared.push([name, script.runInThisContext.bind(script), globalThis[name]]);
  }
};
const undo = () => {
  for (let i = 0; i < kept.length; i++) {
    const [of, name, was] = kept[i];
    const is = getOwnPropertyDescriptor(of, name);
    if (is && is.value === was.value && is.get === was.get && is.set === was.set) continue;
    try {
      defineProperty(of, name, was);
    } catch {
      failed('the program has fixed a part of the language');
    }
  }
  for (let i = 0; i < shared.length; i++) { /* scripts see what others declare */
    if (shared[i][1]() !== shared[i][2]) failed(`the program has a ${shared[i][0]} of its own`);
  }
};

/* ---- programs ---- */

let past = false;
const finish = () => {
  if (past && !status && !process.exitCode) writeSync(3, secret);
};

const refuse = (error) => {
  writeSync(2, `${error}\n`);
  leave(PARSE);
};

const runScripts = (source) => {
  const require = Module.createRequire(path);
  const module = new Module(path, null);
  module.filename = path;
  module.paths = ['/task/node_modules', '/tmp/node_modules', '/usr/share/nodejs'];
  for (const [, id] of tests.matchAll(/\brequire\(['"]((?:node:)?[a-z_/]+)['"]\)/g)) {
    if (Module.builtinModules.includes(id.replace('node:', ''))) require(id);
  }
  const names = { exports: module.exports, require, module, __filename: path, __dirname: '/tmp' };
  for (const [name, value] of Object.entries(names)) {
    defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
  let program, after;
  try {
    program = new vm.Script(source, { filename: path });
    try {
      after = new vm.Script(`'use strict';${tests}`, { filename: 'tests' });
    } catch {
      after = new vm.Script(tests, { filename: 'tests' });
    }
  } catch (error) {
    refuse(error);
  }
  const runProgram = program.runInThisContext.bind(program);
  const runTests = after.runInThisContext.bind(after);
  keepLanguage();
  close();
  runProgram();
  undo();
  return runTests();
};

/* As a module, whose imports are those of a file at its place. */
const runModule = async (source) => {
  const base = require('node:url').pathToFileURL(path);
  const place = (name) => (/^\.{0,2}\//.test(name) ? new URL(name, base).href : name);
  const link = async (name) => {
    const space = await import(place(name));
    const names = Object.keys(space);
    const linked = new vm.SyntheticModule(names, () => {
      for (const one of names) linked.setExport(one, space[one]);
    });
    return linked;
  };
  let module;
  try {
    module = new vm.SourceTextModule(`${source}\n;${tests}`, {
      identifier: path,
      initializeImportMeta(meta) { meta.url = base.href; },
      importModuleDynamically: (name) => import(place(name)),
    });
    await module.link(link);
  } catch (error) {
    refuse(error);
  }
  close();
  await module.evaluate();
};

const begin = async () => {
  const source = fs.readFileSync(path, 'utf8');
  await (path.endsWith('.mjs') ? runModule(source) : runScripts(source));
  past = true;
};

process.once('beforeExit', finish);
begin().catch(failed);

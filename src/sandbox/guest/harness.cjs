/* harness.cjs - runs a program of JavaScript and says when it is past its last test. */
'use strict';
const fs = require('node:fs');
const path = process.argv[2];
const secret = fs.readFileSync(0, 'latin1');
const writeSync = fs.writeSync;
const assert = require('node:assert');
for (const part of [assert, assert.strict]) Object.freeze(part);
const source = fs.readFileSync(path, 'utf8');
const name = '_' + secret;
let past = false;
process.exitCode = undefined;

const reached = () => { past = true; };
const finish = () => {
  if (past && !process.exitCode) writeSync(3, secret);
};

const begin = async () => {
  if (path.endsWith('.mjs')) {
    fs.writeFileSync(path, `${source}\n;globalThis.${name}();\n`);
    Object.defineProperty(globalThis, name, { value: reached, enumerable: false });
    await import(path);
    return;
  }
  const Module = require('node:module');
  const vm = require('node:vm');
  const module = new Module(path, null);
  module.filename = path;
  module.paths = ['/task/node_modules', '/tmp/node_modules', '/usr/share/nodejs'];
  let compiled;
  try {
    compiled = vm.compileFunction(`${source}\n;${name}();`,
      ['exports', 'require', 'module', '__filename', '__dirname', name], { filename: path });
  } catch (error) {
    process.stderr.write(`${error}\n`);
    process._rawDebug = undefined;
    process.exit(114);
  }
  process.argv = [process.argv[0], path];
  compiled.call(module.exports, module.exports, Module.createRequire(path), module, path,
    '/tmp', reached);
};

process.once('beforeExit', finish);
begin();

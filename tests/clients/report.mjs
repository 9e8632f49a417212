// report.mjs - shared by the tests in Node: the server's address, and one line for each check.
export const [url, , key] = process.argv.slice(2);
export const model = process.env.SERVER_MODEL;
export const patience = Number(process.env.CLIENT_PATIENCE || 1);

let passed = 0, failed = 0;

export async function check(name, test) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('took too long')), 300000 * patience);
  });
  try {
    await Promise.race([test(), late]);
    passed++;
    console.log(`  ok ${name}`);
  } catch (error) {
    failed++;
    const where = /clients\/\w+\.mjs:\d+/.exec(error.stack || '') || '';
    const why = String(error.message).replace(/\s+/g, ' ').slice(0, 600);
    console.log(`  FAIL ${name}: ${why} ${where}`);
  } finally {
    clearTimeout(timer);
  }
}

export function finish(name) {
  console.log(`${name}: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

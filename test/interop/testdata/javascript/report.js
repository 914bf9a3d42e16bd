// What every program here does: run the operations one after the other and print how each of them went.
const { isDeepStrictEqual } = require("node:util");

const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// report prints the version and then each operation. An operation that throws does not hold; the next ones run
// nevertheless.
async function report(version, operations) {
  print({ version });
  for (const [operation, run] of Object.entries(operations)) {
    try {
      await run();
      print({ operation, ok: true });
    } catch (err) {
      print({ operation, ok: false, detail: String(err) });
      process.stderr.write(`${operation}: ${err.stack}\n`);
    }
  }
}

function equal(what, got, want) {
  if (!isDeepStrictEqual(got, want)) throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

function holds(what, ok, got) {
  if (!ok) throw new Error(`${what}: got ${JSON.stringify(got)}`);
}

// refused returns the error that something ends with.
async function refused(what, promise) {
  let got;
  try {
    got = await promise;
  } catch (err) {
    return err;
  }
  throw new Error(`${what}: got ${JSON.stringify(got)}, want an error`);
}

module.exports = { report, equal, holds, refused };

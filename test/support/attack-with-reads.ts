/** An attack: many callers read the same nodes again and again. Started by attack.ts. */

interface Settings {
  /** taken in turns */
  readonly urls: readonly string[];
  readonly token: string;
  readonly callers: number;
}

const { urls, token, callers }: Settings = JSON.parse(process.argv[2] ?? '');
const REPORT_MS = 200;
/** after a refusal, so that the attack is many reads and not many refusals */
const AGAIN_MS = 100;
const statuses: Record<string, number> = {};

async function readForEver(caller: number): Promise<never> {
  for (let count = caller; ; count += 1) {
    const url = urls[count % urls.length] as string;
    const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    await answer.arrayBuffer();
    statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
    if (answer.status !== 200) await Bun.sleep(AGAIN_MS);
  }
}

setInterval(() => console.log(JSON.stringify(statuses)), REPORT_MS);
await Promise.all(Array.from({ length: callers }, (_, caller) => readForEver(caller)));

export {};

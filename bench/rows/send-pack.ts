/** One pack by the requests of Bulk, as a client sends it. */
import { encodePackHeader, type encodeRecord, encodeRecordHeader } from '@holdfast/protocol';
import { callBulk, type EnteredSpace } from '../holdfast.ts';

const LEASE_MS = 86_400_000;

interface LeasesAnswer {
  readonly pack?: { readonly id: string; readonly url: string; readonly headers: Record<string, string> };
}

/** Resolves with how many of its nodes are ready. */
export async function sendPack(
  space: EnteredSpace,
  records: readonly ReturnType<typeof encodeRecord>[],
): Promise<number> {
  const body = { leaseDurationMs: LEASE_MS, hashes: records.map(({ hash }) => hash), pack: true };
  const { pack } = await callBulk<LeasesAnswer>(space, '/leases', body);
  if (pack === undefined) throw new Error('The server opened no pack.');
  const parts = records.flatMap((record) => [encodeRecordHeader(record), record.stored]);
  const put = await fetch(pack.url, {
    method: 'PUT',
    headers: pack.headers,
    body: Buffer.concat([encodePackHeader(), ...parts]),
  });
  if (put.status !== 200) throw new Error(`The upload of a pack answered ${put.status}: ${await put.text()}`);
  const { results } = await callBulk<{ results: { state: string }[] }>(space, `/packs/${pack.id}/lease`, {
    leaseDurationMs: LEASE_MS,
  });
  return results.filter(({ state }) => state === 'ready').length;
}

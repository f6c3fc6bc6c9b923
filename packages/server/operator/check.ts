/** The operation that checks a deployment and can repair it. */

import { FINDING_KINDS } from '../inspect/check-contents.ts';
import { checkDeployment } from '../inspect/check-deployment.ts';
import { type Field, flag, optional } from './fields.ts';
import { type OperationCall, operation } from './operation.ts';
import { COUNT, listOf, orNull, record, TEXT } from './schemas.ts';

const SHARE_TEXT = /^(?:all|[0-9]{1,3}%)$/;

/** `all`, or a percentage such as `10%`. */
const SHARE: Field<string> = {
  schema: {
    type: 'string',
    pattern: SHARE_TEXT.source,
    description: 'Reads the bytes too: `all` of them, or a random part such as `10%`.',
  },
  isOptional: false,
  fromText: (given) => given,
  parse: (value, refuse) => {
    const percent = typeof value === 'string' && SHARE_TEXT.test(value) ? percentOf(value) : 0;
    return percent >= 1 && percent <= 100 ? (value as string) : refuse('must be all, or 1% to 100%');
  },
};

const percentOf = (share: string): number => (share === 'all' ? 100 : parseInt(share, 10));

export const check = operation({
  method: 'POST',
  path: 'check',
  right: 'spaces',
  summary: 'Compare rows, bytes, edges, counts, usage and history, and repair what a recount proves',
  input: {
    repair: optional(flag('Corrects counts, and makes rows say what their bytes prove. Deletes nothing.')),
    rehash: optional(SHARE),
  },
  output: record({
    ok: { type: 'boolean', description: 'Nothing was found.' },
    checked: COUNT,
    unsummed: COUNT,
    findings: listOf(
      record({
        kind: { enum: [...FINDING_KINDS] },
        app: TEXT,
        space: TEXT,
        hash: orNull(TEXT),
        message: TEXT,
        repaired: { type: 'boolean' },
      }),
    ),
  }),
  run: async ({ core, registry, signal, report }, { repair = false, rehash }) => {
    const apps = await findDamagedApps(registry);
    const { ok, findings, ...counts } = await checkDeployment(core, {
      isRepaired: repair,
      rehashPercent: rehash === undefined ? 0 : percentOf(rehash),
      signal,
      report,
    });
    return { ok: ok && apps.length === 0, ...counts, findings: [...apps, ...findings] };
  },
});

/** No other data proves a registration, so it cannot be repaired. */
async function findDamagedApps(registry: OperationCall['registry']) {
  const damaged = (await registry.listApps()).filter(({ status }) => status === 'damaged');
  const message =
    'what is registered of this App, its quotas or its revocations is damaged: write it anew with holdfast app add --replace, or restore a backup';
  return damaged.map(({ appId }) => {
    return { kind: 'row' as const, app: appId, space: '', hash: null, message, repaired: false };
  });
}

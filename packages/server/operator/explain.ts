/** The operation that explains what keeps a node. */
import { isHash, type JsonSchema } from '@holdfast/protocol';
import { NotFoundError } from '../errors.ts';
import { explainNode } from '../inspect/explain-node.ts';
import { APP, type Field, SPACE } from './fields.ts';
import { operation } from './operation.ts';
import { listOf, orNull, record, TEXT, TIMESTAMP } from './schemas.ts';

const HASH: Field<string> = {
  schema: { type: 'string', pattern: '^[0-9a-f]{64}$', description: 'The hash of a node.' },
  isOptional: false,
  fromText: (given) => given,
  parse: (value, refuse) => {
    if (typeof value === 'string' && isHash(value)) return value;
    return refuse('must be a hash: 64 lowercase hexadecimal digits');
  },
};

const KEEPER: JsonSchema = record(
  {
    kind: { enum: ['lease', 'root-ref', 'parent'] },
    until: TIMESTAMP,
    refDomain: TEXT,
    balance: { type: 'integer' },
    hash: TEXT,
  },
  ['until', 'refDomain', 'balance', 'hash'],
);

export const explain = operation({
  method: 'GET',
  path: 'explain',
  right: 'spaces',
  summary: 'Say what keeps a node: its lease, its root refs, its parents, and what keeps those',
  input: { app: APP, space: SPACE, hash: HASH },
  output: record({
    hash: TEXT,
    state: { enum: ['waiting', 'ready', 'rotten', 'claimed'] },
    keptBy: listOf(KEEPER),
    collectableAt: orNull(TIMESTAMP),
    chain: listOf(record({ hash: TEXT, keptBy: listOf(KEEPER) }), 'From the node to what keeps it.'),
  }),
  run: async ({ core }, { app, space, hash }) => {
    const found = await explainNode(core, { appId: app, spaceId: space }, hash);
    if (found !== undefined) return found;
    throw new NotFoundError(
      `there is no node ${hash} in the Space ${JSON.stringify(space)} of the App ${JSON.stringify(app)}: check the three, or it has been collected`,
    );
  },
});

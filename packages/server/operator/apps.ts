/** Operations on Apps: those of `holdfast app`. */

import { ALGORITHMS, TOKEN_LIFETIME_MS_MAX_DEFAULT } from '@holdfast/protocol';
import { TEXT_LENGTH_MAX } from '../auth/app-registration.ts';
import type { AppStatus } from '../auth/registry-store.ts';
import type { DescribedApp } from '../deployment/describe-app.ts';
import { APP, type Field, flag, integer, nullable, optional, SPACE, text } from './fields.ts';
import { type PartCalls, partOperation } from './operation.ts';
import { OperatorError } from './problem.ts';
import { COUNT, listOf, orNull, QUOTAS, record, TEXT, TIMESTAMP } from './schemas.ts';

const APP_SCHEMA = record({
  appId: TEXT,
  issuer: TEXT,
  audience: TEXT,
  status: { enum: ['active', 'suspended', 'damaged'] },
  keys: {
    anyOf: [
      record({ kind: { const: 'static' }, kids: listOf(TEXT) }),
      record({ kind: { const: 'url' }, url: TEXT }),
    ],
  },
  jwksUrl: orNull(TEXT),
  algorithms: listOf({ enum: [...ALGORITHMS] }),
  maxTokenLifetimeMs: COUNT,
  quotas: QUOTAS,
  spaceQuotas: listOf(
    record({ space: TEXT, maxBytes: orNull(COUNT), maxNodes: orNull(COUNT), maxCommits: orNull(COUNT) }),
    'Spaces that have a quota of their own.',
  ),
  usage: orNull(
    record({
      spaces: COUNT,
      nodeCount: COUNT,
      readyContentBytes: COUNT,
      readyStoredBytes: COUNT,
      reservedBytes: COUNT,
      notReadyNodeCount: COUNT,
    }),
  ),
  pendingBytes: orNull({ ...COUNT, description: 'Bytes that were received and are not judged yet.' }),
  commitRows: orNull({ ...COUNT, description: 'Commits of root refs that are kept.' }),
  revocations: listOf({
    anyOf: [record({ jti: TEXT, until: TIMESTAMP }), record({ sub: TEXT, until: TIMESTAMP })],
  }),
  createdAt: TIMESTAMP,
  updatedAt: TIMESTAMP,
});

export const listApps = partOperation('apps', {
  method: 'GET',
  path: 'apps',
  right: 'apps',
  summary: 'List the registered Apps',
  input: {},
  output: record({ apps: listOf(APP_SCHEMA, 'By the bytes of their ids.') }),
  run: async ({ registry }) => ({ apps: await registry.describeApps() }),
});

const ALGORITHM_NAMES: Field<readonly string[]> = {
  schema: {
    type: 'array',
    minItems: 1,
    items: { enum: [...ALGORITHMS] },
    description: 'Only these signature algorithms; left out: every supported one.',
  },
  isOptional: false,
  fromText: (given) => given.split(','),
  parse: (value, refuse) => {
    const isList =
      Array.isArray(value) &&
      value.length > 0 &&
      value.every((name) => (ALGORITHMS as readonly unknown[]).includes(name));
    return isList ? (value as string[]) : refuse(`must be a list of some of ${ALGORITHMS.join(', ')}`);
  },
};

export const addApp = partOperation('apps', {
  method: 'POST',
  path: 'apps/add',
  right: 'apps',
  summary: 'Register an App, or with replace swap issuer, audience, keys and lifetime of one that exists',
  input: {
    app: APP,
    issuer: text('The iss of its tokens; an issuer belongs to exactly one App.', TEXT_LENGTH_MAX),
    audience: text('What the aud of its tokens must contain.', TEXT_LENGTH_MAX),
    jwks: optional(
      text(
        'The text of a public JSON Web Key Set to copy into the registry. Give this or jwksUrl.',
        256 * 1024,
      ),
    ),
    jwksUrl: optional(
      text('Address of the public key set, fetched while in use. Give this or jwks.', TEXT_LENGTH_MAX),
    ),
    algorithms: optional(ALGORITHM_NAMES),
    maxTokenLifetimeMs: optional(integer('The longest exp minus iat; left out: 24 h.', { min: 1 })),
    replace: optional(flag('The App may exist.')),
  },
  output: APP_SCHEMA,
  run: async ({ registry }, { app, issuer, audience, jwks, jwksUrl, ...rest }) => {
    if ((jwks === undefined) === (jwksUrl === undefined)) {
      throw new OperatorError('INVALID_INPUT', 'give the keys once: jwks or jwksUrl');
    }
    const keys =
      jwks === undefined
        ? ({ kind: 'url', url: jwksUrl as string } as const)
        : ({ kind: 'static', jwks } as const);
    const registration = {
      ...{ appId: app, issuer, audience, keys, algorithms: rest.algorithms },
      tokenLifetimeMsMax: rest.maxTokenLifetimeMs ?? TOKEN_LIFETIME_MS_MAX_DEFAULT,
    };
    return registry.describeApp(await registry.addApp(registration, { replace: rest.replace ?? false }));
  },
});

async function setStatus(
  { registry }: PartCalls['apps'],
  app: string,
  status: AppStatus,
): Promise<DescribedApp> {
  return registry.describeApp(await registry.setAppStatus(app, status));
}

export const suspendApp = partOperation('apps', {
  method: 'POST',
  path: 'apps/suspend',
  right: 'apps',
  summary: 'Refuse every capability of an App until it is resumed',
  input: { app: APP },
  output: APP_SCHEMA,
  run: (call, { app }) => setStatus(call, app, 'suspended'),
});

export const resumeApp = partOperation('apps', {
  method: 'POST',
  path: 'apps/resume',
  right: 'apps',
  summary: 'Accept the capabilities of a suspended App again',
  input: { app: APP },
  output: APP_SCHEMA,
  run: (call, { app }) => setStatus(call, app, 'active'),
});

export const removeApp = partOperation('apps', {
  method: 'POST',
  path: 'apps/remove',
  right: 'apps',
  summary: 'Unregister an App; its data stays, and serves again when the App is added again',
  input: { app: APP },
  output: record({ appId: TEXT, removed: { const: true } }),
  run: async ({ registry }, { app }) => {
    await registry.removeApp(app);
    return { appId: app, removed: true as const };
  },
});

export const setApp = partOperation('apps', {
  method: 'POST',
  path: 'apps/set',
  right: 'apps',
  summary: 'Set or lift the quotas of an App, or of one of its Spaces',
  input: {
    app: APP,
    space: optional(SPACE),
    maxBytes: optional(nullable(integer('Stored bytes; null lifts the limit; left out, it stays as it is.'))),
    maxNodes: optional(nullable(integer('Nodes; null lifts the limit; left out, it stays as it is.'))),
    maxCommits: optional(
      nullable(integer('Commits of root refs; null lifts the limit; left out, it stays as it is.')),
    ),
  },
  output: APP_SCHEMA,
  run: async ({ registry }, { app, space, maxBytes, maxNodes, maxCommits }) => {
    if (maxBytes === undefined && maxNodes === undefined && maxCommits === undefined) {
      throw new OperatorError('INVALID_INPUT', 'give a quota: maxBytes, maxNodes or maxCommits');
    }
    return registry.describeApp(await registry.setQuotas(app, space, { maxBytes, maxNodes, maxCommits }));
  },
});

export const revokeApp = partOperation('apps', {
  method: 'POST',
  path: 'apps/revoke',
  right: 'apps',
  summary: 'Refuse one token of an App, or all of a subject, until a time; or lift that',
  input: {
    app: APP,
    jti: optional(text('The jti of the token. Give this or sub.', TEXT_LENGTH_MAX)),
    sub: optional(text('The sub of the tokens, also of new ones. Give this or jti.', TEXT_LENGTH_MAX)),
    until: optional(
      integer('Unix time in milliseconds; left out: as long as a token of the App may live from now.'),
    ),
    lift: optional(flag('Take the revocation back.')),
  },
  output: record(
    { appId: TEXT, jti: TEXT, sub: TEXT, until: orNull(TIMESTAMP), lifted: { type: 'boolean' } },
    ['jti', 'sub'],
  ),
  run: async ({ registry }, { app, jti, sub, until, lift = false }) => {
    if ((jti === undefined) === (sub === undefined)) {
      throw new OperatorError('INVALID_INPUT', 'say what to revoke: jti or sub');
    }
    if (lift && until !== undefined) {
      throw new OperatorError('INVALID_INPUT', 'lift takes no time: it holds at once');
    }
    const revoked =
      jti === undefined
        ? ({ claim: 'sub', value: sub as string } as const)
        : ({ claim: 'jti', value: jti } as const);
    const named = jti === undefined ? { sub } : { jti };
    if (lift) {
      await registry.liftRevocation(app, revoked.claim, revoked.value);
      return { appId: app, ...named, until: null, lifted: true };
    }
    const { until: untilAt } = await registry.revoke(app, { ...revoked, until });
    return { appId: app, ...named, until: untilAt, lifted: false };
  },
});

/** Operations on the limits of Apps: quotas and revocations. */

import { TEXT_LENGTH_MAX } from '../auth/app-registration.ts';
import { APP_SCHEMA } from './apps.ts';
import { APP, flag, integer, nullable, optional, SPACE, text } from './fields.ts';
import { partOperation } from './operation.ts';
import { OperatorError } from './problem.ts';
import { orNull, record, TEXT, TIMESTAMP } from './schemas.ts';

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

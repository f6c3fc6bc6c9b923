/** Every check of the suite, area by area. */
import type { Check } from '../suite.ts';
import { authClaimChecks } from './auth-claims.ts';
import { authTokenChecks } from './auth-tokens.ts';
import { childrenChecks } from './children.ts';
import { gcChecks } from './gc.ts';
import { headerChecks } from './headers.ts';
import { healthAndRouteChecks } from './health-and-routes.ts';
import { idChecks } from './ids.ts';
import { jsonBodyChecks } from './json-bodies.ts';
import { leaseChecks } from './leases.ts';
import { nodeFormatChecks } from './node-format.ts';
import { rawProtocolChecks } from './raw-protocol.ts';
import { readChecks } from './reads.ts';
import { rootRefPageChecks } from './root-ref-pages.ts';
import { rootRefChecks } from './root-refs.ts';
import { uploadLimitChecks } from './upload-limit.ts';
import { uploadTargetChecks } from './upload-target.ts';
import { usageChecks } from './usage.ts';

export const allChecks: readonly Check[] = [
  ...healthAndRouteChecks,
  ...jsonBodyChecks,
  ...idChecks,
  ...authTokenChecks,
  ...authClaimChecks,
  ...nodeFormatChecks,
  ...leaseChecks,
  ...childrenChecks,
  ...uploadTargetChecks,
  ...uploadLimitChecks,
  ...readChecks,
  ...usageChecks,
  ...gcChecks,
  ...rootRefChecks,
  ...rootRefPageChecks,
  ...headerChecks,
  ...rawProtocolChecks,
];

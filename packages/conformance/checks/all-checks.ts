/** Every check of the suite, area by area. */

import type { Check } from '../suite.ts';
import { authClaimChecks } from './auth-claims.ts';
import { authKeyChecks } from './auth-keys.ts';
import { authScopeChecks } from './auth-scope.ts';
import { authTokenChecks } from './auth-tokens.ts';
import { bulkLeaseChecks } from './bulk-leases.ts';
import { bulkMixChecks, bulkReadChecks } from './bulk-reads.ts';
import { bulkRouteChecks } from './bulk-routes.ts';
import { childrenChecks } from './children.ts';
import { directUploadChecks } from './direct-uploads.ts';
import { gcChecks } from './gc.ts';
import { headerChecks } from './headers.ts';
import { headChecks } from './heads.ts';
import { healthAndRouteChecks } from './health-and-routes.ts';
import { idChecks } from './ids.ts';
import { jsonBodyChecks } from './json-bodies.ts';
import { leaseRejectionChecks } from './lease-rejections.ts';
import { leaseChecks } from './leases.ts';
import { nodeFormatChecks } from './node-format.ts';
import { packLeaseChecks } from './pack-leases.ts';
import { packUploadChecks } from './pack-uploads.ts';
import { packChecks } from './packs.ts';
import { rawProtocolChecks } from './raw-protocol.ts';
import { rawUploadChecks } from './raw-uploads.ts';
import { readChecks } from './reads.ts';
import { rootRefPageChecks } from './root-ref-pages.ts';
import { rootRefReplayChecks } from './root-ref-replays.ts';
import { rootRefChecks } from './root-refs.ts';
import { uploadLimitChecks } from './upload-limit.ts';
import { uploadOverlapChecks } from './upload-overlaps.ts';
import { uploadTargetChecks } from './upload-target.ts';
import { usageChecks } from './usage.ts';

export const allChecks: readonly Check[] = [
  ...healthAndRouteChecks,
  ...jsonBodyChecks,
  ...idChecks,
  ...authTokenChecks,
  ...authKeyChecks,
  ...authClaimChecks,
  ...authScopeChecks,
  ...nodeFormatChecks,
  ...leaseChecks,
  ...leaseRejectionChecks,
  ...childrenChecks,
  ...uploadTargetChecks,
  ...uploadOverlapChecks,
  ...directUploadChecks,
  ...uploadLimitChecks,
  ...readChecks,
  ...usageChecks,
  ...gcChecks,
  ...rootRefChecks,
  ...rootRefReplayChecks,
  ...rootRefPageChecks,
  ...headerChecks,
  ...headChecks,
  ...rawProtocolChecks,
  ...rawUploadChecks,
  ...bulkRouteChecks,
  ...bulkLeaseChecks,
  ...packChecks,
  ...packUploadChecks,
  ...packLeaseChecks,
  ...bulkReadChecks,
  ...bulkMixChecks,
];

/** The errors of each operation, and their models. */

import type { BulkOperationName } from './bulk/bulk-operations.ts';
import { ERROR_STATUS, type ErrorCode } from './errors.ts';
import { type HeaderModelName, tenantHeaders } from './openapi-headers.ts';
import type { OperationName } from './operations.ts';
import type { JsonSchema } from './schemas.ts';

interface ErrorModel {
  readonly description: string;
  readonly status?: number;
  readonly headers?: readonly HeaderModelName[];
  /** Code to an example of its message. */
  readonly codes: Partial<Readonly<Record<ErrorCode, string>>>;
}

const OVERLOADED = 'the server sheds load; repeat the request later';

export const ERROR_MODELS = {
  BadRequest: {
    description:
      'An id, hash, body, field, integer or query parameter is not well formed, or is unknown or repeated.',
    codes: { INVALID_REQUEST: 'leaseDurationMs must be an integer from 1 to 9007199254740991' },
  },
  Unauthenticated: {
    description: 'The capability is missing or not acceptable.',
    headers: ['WWW-Authenticate'],
    codes: {
      missing_token: 'send Authorization: Bearer with a capability',
      invalid_token: 'the token has expired; get a new one',
      unsupported_algorithm: 'the token is signed with an algorithm that is not accepted',
      unknown_issuer: 'the issuer of the token is not registered',
    },
  },
  Forbidden: {
    description: 'The capability is good, but not for this.',
    codes: {
      APP_SUSPENDED: 'the App is suspended',
      resource_scope_mismatch: 'the token is for another App, Space or refDomain',
      insufficient_permission: 'the token lacks the permission this operation needs',
    },
  },
  NotFound: {
    description: 'No such path, node or pack.',
    codes: { NOT_FOUND: 'there is no ready node with this hash' },
  },
  RootRefConflict: {
    description:
      'Nothing was committed: a positive delta on a node that is not ready, an aggregate out of range, or a requestId used before with other changes.',
    codes: {
      CONFLICT: 'the aggregate balance of the first such hash would fall below 0',
      IDEMPOTENCY_CONFLICT: 'this requestId was used with other changes; use a new one',
    },
  },
  NothingUploaded: {
    description: 'Nothing was uploaded for this pack yet, or it was lost before it was judged.',
    codes: { CONFLICT: 'no bytes were uploaded for this pack; PUT it to its URL, then lease it again' },
  },
  CursorTooOld: {
    description: 'The cursor is older than the history kept.',
    codes: { CONFLICT: 'the history of this cursor is gone; list again from the start' },
  },
  PayloadTooLarge: {
    description: 'The body is over 1 MiB.',
    codes: { PAYLOAD_TOO_LARGE: 'the body is over 1048576 bytes; send a smaller one' },
  },
  RangeNotSatisfiable: {
    description: 'The range is malformed or selects no byte.',
    status: 416,
    headers: ['Content-Range-Unsatisfied'],
    codes: { INVALID_REQUEST: 'range not satisfiable: the content has 11 bytes' },
  },
  Exhausted: {
    description: 'Too much is asked at once.',
    headers: ['Retry-After'],
    codes: { RESOURCE_EXHAUSTED: OVERLOADED },
  },
  UploadsExhausted: {
    description:
      'Too much is asked at once, or the Space has too many active uploads; no upload generation was made.',
    headers: ['Retry-After'],
    codes: {
      CAS_UPLOAD_LIMIT: 'the Space has too many active uploads; repeat the lease when some have ended',
      RESOURCE_EXHAUSTED: OVERLOADED,
    },
  },
  Internal: {
    description: 'Something unexpected; the log of the service has the detail.',
    codes: { INTERNAL_ERROR: 'internal error' },
  },
  Unavailable: {
    description:
      'Storage, the registry or a key set cannot be reached, or retries are exhausted; nothing was changed.',
    headers: ['Retry-After'],
    codes: {
      SERVICE_UNAVAILABLE: 'storage is not available; repeat the request later',
      registry_unavailable: 'the registry cannot be read; repeat the request later',
    },
  },
} as const satisfies Record<string, ErrorModel>;

export type ErrorModelName = keyof typeof ERROR_MODELS;

const EVERYWHERE: readonly ErrorModelName[] = [
  'BadRequest',
  'Unauthenticated',
  'Forbidden',
  'NotFound',
  'Internal',
  'Unavailable',
];

export const OPERATION_ERRORS: Readonly<
  Record<OperationName | BulkOperationName, readonly ErrorModelName[]>
> = {
  readContent: [...EVERYWHERE, 'RangeNotSatisfiable', 'Exhausted'],
  readMetadata: [...EVERYWHERE, 'Exhausted'],
  leaseNode: [...EVERYWHERE, 'PayloadTooLarge', 'UploadsExhausted'],
  getUsage: [...EVERYWHERE, 'Exhausted'],
  runGc: [...EVERYWHERE, 'PayloadTooLarge', 'Exhausted'],
  listRootRefs: [...EVERYWHERE, 'CursorTooOld', 'Exhausted'],
  updateRootRefs: [...EVERYWHERE, 'RootRefConflict', 'PayloadTooLarge', 'Exhausted'],
  leaseNodes: [...EVERYWHERE, 'PayloadTooLarge', 'UploadsExhausted'],
  leasePack: [...EVERYWHERE, 'NothingUploaded', 'PayloadTooLarge', 'Exhausted'],
  readNodes: [...EVERYWHERE, 'PayloadTooLarge', 'Exhausted'],
};

export function errorModelStatus(name: ErrorModelName): number {
  const model: ErrorModel = ERROR_MODELS[name];
  const [code] = Object.keys(model.codes) as ErrorCode[];
  return model.status ?? ERROR_STATUS[code as ErrorCode];
}

export function errorResponse(name: ErrorModelName): JsonSchema {
  const model: ErrorModel = ERROR_MODELS[name];
  const codes = Object.entries(model.codes);
  return {
    description: model.description,
    headers: tenantHeaders('Cache-Control-No-Store', 'X-Request-Id', ...(model.headers ?? [])),
    content: {
      'application/json': {
        schema: {
          $ref: '#/components/schemas/Error',
          properties: { error: { enum: codes.map(([code]) => code) } },
        },
        examples: Object.fromEntries(codes.map(([error, message]) => [error, { value: { error, message } }])),
      },
    },
  };
}

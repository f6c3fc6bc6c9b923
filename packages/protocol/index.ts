/** The interface of the Space API as code: no I/O, web standards only. */
export * from './algorithms.ts';
export * from './duration.ts';
export * from './errors.ts';
export * from './hash.ts';
export * from './ids.ts';
export * from './limits.ts';
export * from './node-codec.ts';
export * from './openapi.ts';
export * from './operations.ts';
export * from './requests.ts';
export * from './root-ref-payload.ts';
export * from './schemas.ts';
export * from './serve-defaults.ts';
export * from './size.ts';
export * from './strict-json.ts';
export * from './wire.ts';

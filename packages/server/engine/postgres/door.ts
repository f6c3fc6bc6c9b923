/** The parts that open a deployment with rows in PostgreSQL. */

export { PostgresTurns } from './background-turns.ts';
export { findPageChecksums } from './database-fitness.ts';
export { assertNoServer, beginServing, holdDeployment } from './deployment-lock.ts';
export { PostgresDeploymentRows } from './deployment-rows.ts';
export { PostgresMetadataStore } from './metadata-store.ts';
export { assertUsable } from './migrations.ts';
export { openControlPool, openPostgres } from './open-postgres.ts';
export { openPostgresRegistryStore } from './registry-store.ts';
export {
  exchangeSigningSecrets,
  findSigningSecrets,
  openStoreIdentity,
  readSigningSecrets,
  replaceSigningSecrets,
} from './secrets.ts';
export { tryDatabase } from './try-database.ts';

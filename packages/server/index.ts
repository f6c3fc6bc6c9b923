/** The door of the server: what the command line and tests may use. */
export { findRegistry, openRegistry, type Registry, RegistryError, type RegistryPlace } from './admin.ts';
export { parseServeConfig, type ServeConfig, type ServeFlags } from './config.ts';
export { type DeploymentPlace, parseDeploymentPlace } from './deployment-place.ts';
export { parsePostgresUrl } from './engine-urls.ts';
export { serve } from './main.ts';
export {
  type Migration,
  type MigrationPlan,
  migrateDeployment,
  planMigration,
} from './migrate-deployment.ts';
export type { MigrationEvent, MigrationResult } from './migration/events.ts';
export { ConfigError, ServeError } from './serve-error.ts';
export { runWorker } from './worker.ts';

/** The parts that open a deployment with rows in a data folder. */

export { SqliteDeploymentRows } from './deployment-rows.ts';
export { SqliteMetadataStore } from './metadata-store.ts';
export { openSqliteRegistryStore } from './registry-store.ts';
export { assertUsableFile, beginServing, openStoreIdentity, tryDatabaseFile } from './store-identity.ts';

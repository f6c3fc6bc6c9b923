import { testContentStore } from '../contract/content-store-suite.ts';
import { openContentStore } from './content-store-world.ts';

testContentStore('embedded', { upload: 'server', open: () => openContentStore() });

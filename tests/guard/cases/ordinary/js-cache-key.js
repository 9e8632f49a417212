const crypto = require('crypto')
const cacheKey = (o) => crypto.createHash('md5').update(JSON.stringify(o)).digest('hex')

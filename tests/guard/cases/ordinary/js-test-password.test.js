test('login', async () => {
  await login({ user: 'a', password: 'hunter2!' })
})
